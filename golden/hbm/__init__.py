"""HBM: a device that checks every command, a controller exact to the cycle, and bounds on both."""
