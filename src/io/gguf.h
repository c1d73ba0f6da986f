// GGUF files, the form in which llama.cpp and its relatives keep a model: written in one pass, never read.
//
//   "GGUF", version 3, number of tensors, number of keys; the keys with their values; each tensor's name, shape, type
//   and place; then the tensors, each at a multiple of 32 bytes. Everything is little-endian (ggml's docs/gguf.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/env.h"

namespace hone::io {

// How a tensor's numbers are kept; the values are ggml's.
enum class GgufType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  bf16 = 30
};
std::string_view name_of(GgufType type);                // "Q4_K"
std::int64_t block_values(GgufType type);               // numbers that are kept together; a row holds whole blocks
std::int64_t block_bytes(GgufType type);                // what they take
std::uint64_t gguf_bytes(GgufType type, std::int64_t numbers);  // REQUIRES: whole blocks

using GgufValue = std::variant<bool, std::uint32_t, std::int32_t, float, std::string, std::vector<bool>,
                               std::vector<std::uint8_t>, std::vector<std::int32_t>, std::vector<float>,
                               std::vector<std::string>>;
// In the order in which they are written. Each key once.
class GgufKeys {
 public:
  void set(const std::string& key, GgufValue value);  // takes the place of an earlier one
  const GgufValue* find(std::string_view key) const;
  const std::vector<std::pair<std::string, GgufValue>>& all() const { return entries_; }

 private:
  std::vector<std::pair<std::string, GgufValue>> entries_;
};

struct GgufTensor {
  std::string name;
  GgufType type = GgufType::f32;
  std::vector<std::int64_t> shape;  // as elsewhere here: rows first. The file has it the other way round
  std::int64_t numel() const;
  std::uint64_t bytes() const { return gguf_bytes(type, numel()); }
};

// Writes one file: the head when it is made, then the tensors' bytes, in their order. One thread at a time.
class GgufWriter {
 public:
  GgufWriter(OutFile file, const GgufKeys& keys, std::vector<GgufTensor> tensors);
  void write(std::span<const std::byte> bytes);  // what follows the bytes before, of the tensor that is not yet whole
  void finish();                                 // REQUIRES: all tensors are written. Syncs, closes
  std::uint64_t size() const { return file_.size(); }

 private:
  void pad();
  OutFile file_;
  std::vector<GgufTensor> tensors_;
  std::size_t next_ = 0;    // the tensor that is being written
  std::uint64_t left_ = 0;  // bytes that it still wants
};

// The first key of files that hone has written, by which it knows them again.
inline constexpr const char* kGgufMaker = "hone.version";
// "": the file in `folder` begins as one of hone's. Otherwise the reason against, for a message.
std::string why_not_our_gguf(const Folder& folder, const std::string& name);

}  // namespace hone::io
