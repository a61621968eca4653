"""Transports: how tensors get from one rank to another."""
