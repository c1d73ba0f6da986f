// safetensors files: read with every bound checked before anything is allocated, written in one pass.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hone/error.h"

namespace hone {

// One tensor of a file. dtype is safetensors' name: "F32", "BF16", "F16", "F64", "I64", "I32", "I16", "I8", "U8",
// "BOOL", ...
struct TensorInfo {
  std::string name, dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // byte range in the data part of its file
  std::uint64_t bytes() const { return end - begin; }
};
HONE_API std::size_t dtype_bytes(const std::string& dtype);  // of an element; 0: unknown, or less than a byte

// An open file. Reading uses pread: safe from several threads, and a file cut meanwhile is an error, never a SIGBUS.
class HONE_API Safetensors {
 public:
  explicit Safetensors(const std::filesystem::path& path);  // throws Error(checkpoint); refuses pickles with advice
  ~Safetensors();
  Safetensors(Safetensors&&) noexcept;
  const std::filesystem::path& path() const;
  const std::vector<TensorInfo>& tensors() const;  // in file order
  const TensorInfo* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const;
  // Its bytes from `offset` on. REQUIRES: there are as many.
  void read(const TensorInfo& tensor, std::span<std::byte> into, std::uint64_t offset = 0) const;
  // Its bytes as they lie in the file, mapped: read when they are first looked at, and shared with others that map it.
  // The file must not be cut while they are used (one that is replaced by another of its name is not).
  std::shared_ptr<const std::byte> map(const TensorInfo& tensor) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// All tensors of a model: model.safetensors, or the shards of model.safetensors.index.json (checked against each
// other).
class HONE_API SafetensorsSet {
 public:
  explicit SafetensorsSet(const std::filesystem::path& folder_or_file);
  struct Place {
    const Safetensors* file;
    const TensorInfo* tensor;
  };
  const std::map<std::string, Place>& tensors() const { return places_; }

 private:
  void open_shards(const std::filesystem::path& folder, const std::filesystem::path& index);
  std::vector<std::unique_ptr<Safetensors>> files_;
  std::map<std::string, Place> places_;
};

}  // namespace hone
