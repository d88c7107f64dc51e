// Runs a model for many cycles in one call: streams are fed from and collected into arrays. verif/harness/model.py is
// the other half; the structures below are its ctypes classes, field by field. ports.inc, generated for each block,
// lists the model's ports. Payloads are little-endian 32-bit words.
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "Vtop.h"
#include "verilated.h"
#if VM_TRACE
#include "verilated_fst_c.h"
#endif
#if VM_COVERAGE
#include "verilated_cov.h"
#endif

double sc_time_stamp() { return 0; }

namespace {

struct PortEntry {
    void* data;
    int32_t bytes;
};

struct Instance {
    VerilatedContext context;
    std::unique_ptr<Vtop> top;
    std::vector<PortEntry> ports;
    uint64_t time = 0;
#if VM_TRACE
    std::unique_ptr<VerilatedFstC> trace;
#endif
};

struct Stream {
    int32_t valid, ready, payload;  // port numbers, -1: the wire does not exist (constant true, or empty payload)
    int32_t words;                  // words of one payload
    int32_t into;                   // 1: the block consumes it
    uint32_t stall;                 // probability of a pause in 1/2^32
    uint64_t state;                 // of the random generator
    uint32_t* data;
    int64_t* stamps;                // cycle of each transfer, counted from the start of the run
    int64_t capacity;               // items to send, or room for items to collect
    int64_t wanted;                 // items after which the stream is content; -1: never counts
    int64_t done;
    const uint8_t* mask;            // 1: pause in this cycle; repeats
    int64_t mask_length;
    int64_t held;                   // 1: an item is offered and not yet taken
    int64_t dropped;                // first cycle in which the block withdrew valid or changed a payload, -1: never
};

struct Wire {
    int32_t port;
    int32_t words;
    uint32_t* data;
    int64_t count;  // rows of data; inputs keep the last one
};

struct Reset {
    int64_t at, cycles;
};

struct Run {
    Stream* streams;
    Wire* inputs;
    Wire* outputs;
    const Reset* resets;
    int32_t stream_count, input_count, output_count, reset_count;
    int32_t clk, rst;
    int64_t cycle, limit;           // next cycle; first cycle not to run
    int64_t idle_limit, idle;       // cycles without a transfer
    int64_t tail, tail_left;        // cycles to go on after every stream is content
};

enum Reason { CONTENT = 0, IDLE = 1, LIMIT = 2, FULL = 3 };

inline void put(const Instance& model, int32_t port, const uint32_t* words) {
    std::memcpy(model.ports[port].data, words, model.ports[port].bytes);
}

inline void put_bit(const Instance& model, int32_t port, uint32_t value) { put(model, port, &value); }

inline uint32_t get_bit(const Instance& model, int32_t port) {
    return port < 0 ? 1 : *static_cast<const uint8_t*>(model.ports[port].data);
}

inline void get(const Instance& model, int32_t port, uint32_t* words, int32_t count) {
    if (model.ports[port].bytes < 4) words[count - 1] = 0;
    std::memcpy(words, model.ports[port].data, model.ports[port].bytes);
}

inline bool same(const Instance& model, int32_t port, const uint32_t* words) {
    return port < 0 || !std::memcmp(words, model.ports[port].data, model.ports[port].bytes);
}

// xorshift64*: a pause decision costs a nanosecond and repeats with the seed.
inline bool pauses(Stream& stream, int64_t cycle) {
    if (stream.mask) return stream.mask[cycle % stream.mask_length];
    if (!stream.stall) return false;
    stream.state ^= stream.state >> 12;
    stream.state ^= stream.state << 25;
    stream.state ^= stream.state >> 27;
    return static_cast<uint32_t>((stream.state * 0x2545F4914F6CDD1DULL) >> 32) < stream.stall;
}

inline void step(Instance& model) {
    model.top->eval();
#if VM_TRACE
    if (model.trace) model.trace->dump(model.time);
#endif
    ++model.time;
    model.context.timeInc(1);
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT Instance* model_create(int32_t threads, const char* trace_path, uint64_t seed) {
    auto* model = new Instance;
    model->context.threads(threads);
    model->context.randSeed(static_cast<int>(seed));
#if VM_TRACE
    model->context.traceEverOn(true);
#endif
    model->top.reset(new Vtop(&model->context, "top"));
#define PORT(name) model->ports.push_back({&model->top->name, static_cast<int32_t>(sizeof(model->top->name))});
#include "ports.inc"
#undef PORT
#if VM_TRACE
    if (trace_path) {
        model->trace.reset(new VerilatedFstC);
        model->top->trace(model->trace.get(), 99);
        model->trace->open(trace_path);
    }
#endif
    return model;
}

EXPORT void model_destroy(Instance* model, const char* coverage_path) {
    model->top->final();
#if VM_TRACE
    if (model->trace) model->trace->close();
#endif
#if VM_COVERAGE
    if (coverage_path) model->context.coveragep()->write(coverage_path);
#endif
    delete model;
}

EXPORT int32_t model_run(Instance* model, Run* run) {
    for (;; ++run->cycle) {
        bool content = true;
        for (int32_t n = 0; n < run->stream_count; ++n) {
            Stream& s = run->streams[n];
            content &= s.into ? s.done == s.capacity : s.wanted < 0 || s.done >= s.wanted;
            if (!s.into && s.done == s.capacity) return FULL;
        }
        if (!content) run->tail_left = run->tail;
        else if (run->tail_left-- == 0) return CONTENT;
        if (run->cycle == run->limit) return LIMIT;
        if (run->idle == run->idle_limit) return IDLE;

        const int64_t cycle = run->cycle;
        bool reset = false;
        for (int32_t n = 0; n < run->reset_count; ++n)
            reset |= cycle >= run->resets[n].at && cycle < run->resets[n].at + run->resets[n].cycles;
        if (run->rst >= 0) put_bit(*model, run->rst, reset);
        for (int32_t n = 0; n < run->input_count; ++n) {
            const Wire& w = run->inputs[n];
            put(*model, w.port, w.data + w.words * (cycle < w.count ? cycle : w.count - 1));
        }
        for (int32_t n = 0; n < run->stream_count; ++n) {
            Stream& s = run->streams[n];
            const bool pause = pauses(s, cycle) || reset;
            if (s.into) {
                s.held = !reset && s.done < s.capacity && (s.held || !pause || s.valid < 0);
                if (s.valid >= 0) put_bit(*model, s.valid, s.held);
                if (s.held && s.payload >= 0) put(*model, s.payload, s.data + s.words * s.done);
            } else if (s.ready >= 0) {
                put_bit(*model, s.ready, !pause);
            }
        }
        if (run->clk >= 0) put_bit(*model, run->clk, 0);
        step(*model);

        bool moved = false;
        for (int32_t n = 0; n < run->stream_count; ++n) {
            Stream& s = run->streams[n];
            if (reset) {
                s.held = 0;
                continue;
            }
            const bool ready = get_bit(*model, s.ready);
            if (s.into) {
                if (!s.held || !ready) continue;
                s.held = 0;
            } else {
                const bool valid = get_bit(*model, s.valid);
                uint32_t* slot = s.data + s.words * s.done;  // holds the payload offered in the cycle before
                if (s.held && s.dropped < 0 && !(valid && same(*model, s.payload, slot))) s.dropped = cycle;
                if (valid && s.payload >= 0) get(*model, s.payload, slot, s.words);
                s.held = valid && !ready;
                if (!valid || !ready) continue;
            }
            s.stamps[s.done++] = cycle;
            moved = true;
        }
        run->idle = moved ? 0 : run->idle + 1;
        for (int32_t n = 0; n < run->output_count; ++n) {
            const Wire& w = run->outputs[n];
            get(*model, w.port, w.data + w.words * cycle, w.words);
        }
        if (run->clk >= 0) {
            put_bit(*model, run->clk, 1);
            step(*model);
        }
    }
}
