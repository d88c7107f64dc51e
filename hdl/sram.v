// The memory of every systola block: replace this one module to use a real macro (docs/verilog.md).
//
// Power-on contents are INIT in the first INIT_ROWS rows and zero above; a reset changes nothing. With the macro
//   SYSTOLA_SRAM_UNKNOWN defined rows above INIT_ROWS start unknown: for tools that unroll loops (Yosys: minutes).
// Write: at a rising edge, each lane of a row whose enable is set. Two ports that write the same lane of the same row
//   at the same edge are a fault of the parent; here the higher port wins. A row at or above DEPTH is not written.
// Read, synchronous: at a rising edge with read_en, read_data becomes the row as it was before that edge; lanes written
//   at the same edge by a port in the read port's TRANSPARENT set come out new. Without read_en read_data is held.
// Read, asynchronous (ASYNC bit set): read_data is the row now; read_en is ignored.
// A row at or above DEPTH reads as zero, or as what a port of the TRANSPARENT set would have written.
// Port p has bits [p*N +: N] of each vector of N bits a port.
module systola_sram #(
    parameter WIDTH = 8,  // bits of a row
    parameter DEPTH = 16,  // rows
    parameter ADDRESS = 4,  // bits of an address: DEPTH <= 2**ADDRESS
    parameter READS = 1,  // read ports
    parameter WRITES = 1,  // write ports
    parameter LANES = 1,  // write enables of a row
    parameter [READS-1:0] ASYNC = 0,  // read ports without a clock
    parameter [READS*WRITES-1:0] TRANSPARENT = 0,  // bit r*WRITES + w: read port r sees what write port w writes
    parameter [WIDTH-1:0] DATA_INIT = 0,  // read_data before the first read
    parameter INIT_ROWS = 0,
    parameter [(INIT_ROWS > 0 ? INIT_ROWS : 1)*WIDTH-1:0] INIT = 0  // row r in bits [r*WIDTH +: WIDTH]
) (
    input wire clk,
    input wire [READS-1:0] read_en,
    input wire [READS*ADDRESS-1:0] read_addr,
    output wire [READS*WIDTH-1:0] read_data,
    input wire [WRITES*LANES-1:0] write_en,
    input wire [WRITES*ADDRESS-1:0] write_addr,
    input wire [WRITES*WIDTH-1:0] write_data
);
  // Names below end in an underscore where a user's instance might be called the same: lints call that hiding.
  localparam LANE = WIDTH / LANES;
  localparam FULL = DEPTH == 1 << ADDRESS;

  reg [WIDTH-1:0] rows_[0:DEPTH-1];

  integer row_;
  initial begin
    for (row_ = 0; row_ < INIT_ROWS; row_ = row_ + 1) rows_[row_] = INIT[row_*WIDTH+:WIDTH];
`ifndef SYSTOLA_SRAM_UNKNOWN
    for (row_ = INIT_ROWS; row_ < DEPTH; row_ = row_ + 1) rows_[row_] = {WIDTH{1'b0}};
`endif
  end

  wire [WRITES-1:0] write_legal;
  genvar w;
  generate
    for (w = 0; w < WRITES; w = w + 1) begin : write
      if (FULL) begin : legal
        assign write_legal[w] = 1'b1;
      end else begin : legal
        assign write_legal[w] = {1'b0, write_addr[w*ADDRESS+:ADDRESS]} < DEPTH[ADDRESS:0];
      end
    end
  endgenerate

  integer port_, lane_;
  always @(posedge clk)
    for (port_ = 0; port_ < WRITES; port_ = port_ + 1)
      for (lane_ = 0; lane_ < LANES; lane_ = lane_ + 1)
        if (write_en[port_*LANES+lane_] && write_legal[port_])
          rows_[write_addr[port_*ADDRESS+:ADDRESS]][lane_*LANE+:LANE] <= write_data[port_*WIDTH+lane_*LANE+:LANE];

  genvar r;
  generate
    for (r = 0; r < READS; r = r + 1) begin : read
      wire [ADDRESS-1:0] address = read_addr[r*ADDRESS+:ADDRESS];
      wire [WIDTH-1:0] stored;
      if (FULL) begin : legal
        assign stored = rows_[address];
      end else begin : legal
        assign stored = {1'b0, address} < DEPTH[ADDRESS:0] ? rows_[address] : {WIDTH{1'b0}};
      end

      if (ASYNC[r]) begin : timing
        wire unused_enable = read_en[r];
        assign read_data[r*WIDTH+:WIDTH] = stored;
      end else begin : timing
        reg [WIDTH-1:0] data;
        initial data = DATA_INIT;
        integer source_, part_;
        always @(posedge clk)
          if (read_en[r]) begin
            data <= stored;
            for (source_ = 0; source_ < WRITES; source_ = source_ + 1)
              for (part_ = 0; part_ < LANES; part_ = part_ + 1)
                if (TRANSPARENT[r*WRITES+source_] && write_en[source_*LANES+part_]
                    && write_addr[source_*ADDRESS+:ADDRESS] == address)
                  data[part_*LANE+:LANE] <= write_data[source_*WIDTH+part_*LANE+:LANE];
          end
        assign read_data[r*WIDTH+:WIDTH] = data;
      end
    end
  endgenerate
endmodule
