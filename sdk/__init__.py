"""The machine as something you program: command line, runtime, compilers, profiler."""
