// Stands in for liblz4, so that FST waves need no library of the host. A block of literals only is a valid LZ4 block;
// the writer keeps the uncompressed data wherever that is shorter, and uses LZ4 unconditionally for the hierarchy alone.
#pragma once
#include <cstring>

inline int LZ4_compressBound(int size) { return size + size / 255 + 16; }

inline int LZ4_compress_default(const char* source, char* target, int size, int) {
    unsigned char* out = reinterpret_cast<unsigned char*>(target);
    *out++ = static_cast<unsigned char>((size < 15 ? size : 15) << 4);
    if (size >= 15) {
        int rest = size - 15;
        for (; rest >= 255; rest -= 255) *out++ = 255;
        *out++ = static_cast<unsigned char>(rest);
    }
    std::memcpy(out, source, size);
    return static_cast<int>(out + size - reinterpret_cast<unsigned char*>(target));
}
