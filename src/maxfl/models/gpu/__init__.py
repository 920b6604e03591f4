"""Kernels for GPUs, in Pallas; elsewhere they run in its interpreter, for tests."""
