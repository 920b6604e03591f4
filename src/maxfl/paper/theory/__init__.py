"""The paper's appendix as code: mean estimation, and convergence."""
