// Tensor cores of the emulated GPU, which includes this: what they do, as PTX describes it.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace emulated {

// ldmatrix.x4 (turned: .trans), movmatrix, mma.m16n8k16.
inline int own_lane() { return static_cast<int>(threadIdx.x) % Machine::kLanes; }

inline void load_matrices(unsigned (&to)[4], const void* row, bool turned) {
  check_access(row, 16);
  const Machine::OfWarp rows = Machine::now().gather({{reinterpret_cast<std::uint64_t>(row)}});
  const auto value = [&](int matrix, int r, int c) {
    std::uint16_t bits = 0;
    const auto* at = reinterpret_cast<const char*>(rows[static_cast<std::size_t>(8 * matrix + r)].at[0]);
    std::memcpy(&bits, at + 2 * c, sizeof bits);
    return static_cast<unsigned>(bits);
  };
  const int line = own_lane() / 4, pair = own_lane() % 4 * 2;
  for (int m = 0; m < 4; ++m)
    to[m] = turned ? value(m, pair, line) | value(m, pair + 1, line) << 16
                   : value(m, line, pair) | value(m, line, pair + 1) << 16;
}

// movmatrix.m8n8.trans.
inline unsigned move_matrix(unsigned word) {
  const Machine::OfWarp all = Machine::now().gather({{word}});
  const auto line = static_cast<unsigned>(own_lane()) / 4, pair = static_cast<unsigned>(own_lane()) % 4 * 2;
  const auto value = [&](unsigned row) {
    return static_cast<unsigned>(all[4 * row + line / 2].at[0] >> (16 * (line % 2)) & 0xffff);
  };
  return value(pair) | value(pair + 1) << 16;
}

template <class Widen>
void multiply_add(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, Widen&& widen) {
  const auto both = [](unsigned low, unsigned high) { return low | static_cast<std::uint64_t>(high) << 32; };
  const Machine::OfWarp all = Machine::now().gather({{both(a[0], a[1]), both(a[2], a[3]), both(b0, b1)}});
  // Of a lane's word w, its register r, half of it.
  const auto value = [&](int lane, int w, int r, int half) {
    const std::uint64_t word = all[static_cast<std::size_t>(lane)].at[w];
    return widen(static_cast<unsigned short>(word >> (32 * r + 16 * half)));
  };
  const int group = own_lane() / 4, pair = own_lane() % 4 * 2;
  for (int i = 0; i < 4; ++i) {
    const int below = i / 2, column = pair + i % 2;  // row group, or group + 8
    for (int k = 0; k < 16; ++k) {
      const int holder = k % 8 / 2, later = k / 8;
      c[i] += value(4 * group + holder, later, below, k % 2) * value(4 * column + holder, 2, later, k % 2);
    }
  }
}

// wgmma.m64nNk16 of matrices in the block's room, whose rows of 128 bytes are swizzled (layout 1 of a descriptor): a
// row holds a line's depths, or, turned, 64 lines of a depth.
struct InRoom {
  std::uint64_t descriptor;
  bool turned;
};
inline unsigned address_in_room(const InRoom& x, unsigned line, unsigned depth) {
  const auto bytes = [&](int from) { return static_cast<unsigned>(x.descriptor >> from & 0x3fff) * 16; };
  const unsigned leading = bytes(16), stride = bytes(32);
  const unsigned from_begin = x.turned ? line / 64 * leading + line % 64 * 2 + depth / 8 * stride + depth % 8 * 128
                                       : line / 8 * stride + line % 8 * 128 + depth * 2;
  const unsigned place = bytes(0) + from_begin;
  return place ^ (place >> 7 & 7) << 4;
}
// A thread's first row and column of a product; its sums are as in mma's.
struct OwnSums {
  unsigned row, pair;
};
inline OwnSums own_sums() {
  const auto lane = static_cast<unsigned>(own_lane());
  return {threadIdx.x / Machine::kLanes % 4 * 16 + lane / 4, lane % 4 * 2};
}
inline void check_matrix(const InRoom& x) {
  if (x.descriptor >> 62 != 1 || (x.descriptor >> 49 & 7) != 0) throw std::runtime_error("a matrix in another order");
}
template <class Widen, int kSums>
void group_multiply(float (&c)[kSums], InRoom left, InRoom right, bool add, Widen widen) {
  check_matrix(left), check_matrix(right);
  Machine::now().read_later([&c, left, right, add, widen, own = own_sums()] {
    const auto value = [&](const InRoom& x, unsigned line, unsigned depth) {
      return widen(Machine::now().value_at(address_in_room(x, line, depth)));
    };
    for (unsigned i = 0; i < kSums; ++i) {
      float sum = add ? c[i] : 0;
      for (unsigned depth = 0; depth < 16; ++depth)
        sum += value(left, own.row + i / 2 % 2 * 8, depth) * value(right, i / 4 * 8 + own.pair + i % 2, depth);
      c[i] = sum;
    }
  });
}
// The left factor in the registers of a warp's threads, as mma's.
template <class Widen, int kSums>
void group_multiply_held(float (&c)[kSums], const unsigned (&a)[4], InRoom right, bool add, Widen widen) {
  check_matrix(right);
  const auto both = [](unsigned low, unsigned high) { return low | static_cast<std::uint64_t>(high) << 32; };
  const Machine::Given own{{both(a[0], a[1]), both(a[2], a[3])}};
  Machine::now().read_later([&c, &a, own, all = Machine::now().gather(own), both, right, add, widen, of = own_sums(),
                             group = static_cast<unsigned>(own_lane()) / 4] {
    if (both(a[0], a[1]) != own.at[0] || both(a[2], a[3]) != own.at[1])
      throw std::runtime_error("registers that the hardware reads have been written");
    const auto left = [&](unsigned below, unsigned depth) {
      const std::uint64_t word = all[4 * group + depth % 8 / 2].at[depth / 8];
      return widen(static_cast<unsigned short>(word >> (32 * below + 16 * (depth % 2))));
    };
    for (unsigned i = 0; i < kSums; ++i) {
      if (!add) c[i] = 0;
      for (unsigned depth = 0; depth < 16; ++depth)
        c[i] += left(i / 2 % 2, depth) *
                widen(Machine::now().value_at(address_in_room(right, i / 4 * 8 + of.pair + i % 2, depth)));
    }
  });
}

}  // namespace emulated
