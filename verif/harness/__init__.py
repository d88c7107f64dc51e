"""What every bench is built from; ``docs/verification.md`` shows how.

====================  ==============================================================================================
:mod:`.design`        a block as Verilog with its streams and plain ports
:mod:`.compile`       Verilator models, compiled once and cached by content
:mod:`.runner`        cocotb benches: seeds, waves, coverage, one command to repeat a failure
:mod:`.packing`       payloads as integers, words and numpy arrays
:mod:`.stalls`        when a stream pauses
:mod:`.streams`       stream source, sink and monitor for cocotb
:mod:`.scoreboard`    bit-exact comparison that says what differs
:mod:`.model`         compiled batch model: numpy arrays in, numpy arrays out
:mod:`.pysim`         the same stimulus in Amaranth's own simulator
:mod:`.faults`        planted faults: shows that a comparison can fail
:mod:`.formal`        proofs with sby
:mod:`.coverage`      functional and code coverage
:mod:`.mutation`      mutants of a netlist
:mod:`.plan`          test plans
====================  ==============================================================================================
"""
