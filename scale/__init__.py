"""The machine as a system: chip, instance, UltraServer, UltraCluster, and the claims about them."""
