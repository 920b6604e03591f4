"""The paper's tables and figures: declared, run, and shown beside what it prints."""
