"""The tensor engine as numbers: values bit for bit, cycles exactly."""
