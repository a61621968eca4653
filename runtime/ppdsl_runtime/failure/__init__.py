"""What keeps a rank's failure from leaving the others hanging."""
