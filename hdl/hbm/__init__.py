"""HBM controller: reorder windows, bank timers, refresh, scheduler, data path."""
