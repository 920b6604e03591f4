"""The settings of a run: a module for each table of its TOML file, and the file itself."""
