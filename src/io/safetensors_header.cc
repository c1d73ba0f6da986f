// One pass over the header's JSON, straight into TensorInfo: no tree in between, so a hostile header costs little
// memory.
#include "io/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/strings.h"

namespace hone::io {
namespace {

using nlohmann::json;
constexpr std::uint64_t kMaxHeader = 100'000'000;
constexpr std::size_t kMaxTensors = 1'000'000, kMaxRank = 64, kMaxName = 512, kMaxMetadata = 100'000;
constexpr int kMaxDepth = 100;

struct Dtype {
  const char* name;
  unsigned bits;
};
constexpr std::array kDtypes = {
    Dtype{"F4", 4},          Dtype{"F6_E2M3", 6}, Dtype{"F6_E3M2", 6}, Dtype{"BOOL", 8},    Dtype{"U8", 8},
    Dtype{"I8", 8},          Dtype{"F8_E5M2", 8}, Dtype{"F8_E4M3", 8}, Dtype{"F8_E8M0", 8}, Dtype{"F8_E4M3FNUZ", 8},
    Dtype{"F8_E5M2FNUZ", 8}, Dtype{"I16", 16},    Dtype{"U16", 16},    Dtype{"F16", 16},    Dtype{"BF16", 16},
    Dtype{"I32", 32},        Dtype{"U32", 32},    Dtype{"F32", 32},    Dtype{"C64", 64},    Dtype{"F64", 64},
    Dtype{"I64", 64},        Dtype{"U64", 64}};

unsigned dtype_bits(const std::string& dtype) {
  for (const Dtype& known : kDtypes)
    if (dtype == known.name) return known.bits;
  return 0;
}

// Follows the events of the parser; the place in the document says what each of them means.
class HeaderEvents {
 public:
  explicit HeaderEvents(SafetensorsHeader& out) : out_(out) {}
  const std::string& fact() const { return fact_; }

  bool null() { return place_ == Place::top && in_metadata_ ? close_metadata() : skipped() || refuse("null"); }
  bool boolean(bool) { return skipped() || refuse("a boolean"); }
  bool number_float(double, const std::string& text) { return skipped() || refuse("the number " + text); }
  bool number_integer(std::int64_t value) { return skipped() || refuse(fmt::format("the number {}", value)); }
  bool number_unsigned(std::uint64_t value) {
    if (place_ == Place::shape) return add_size(value);
    if (place_ == Place::offsets) return add_offset(value);
    return skipped() || refuse(fmt::format("the number {}", value));
  }
  bool string(std::string& text) {
    if (place_ == Place::metadata) return add_metadata(text);
    if (place_ == Place::tensor && key_ == "dtype") {
      tensor_.dtype = text;
      return true;
    }
    return skipped() || refuse("the text " + hone::quoted(text));
  }
  bool binary(json::binary_t&) { return refuse("binary data"); }

  bool start_object(std::size_t) {
    if (skip_ > 0 || (place_ == Place::tensor && !known_key())) return deeper();
    switch (place_) {
      case Place::start:
        place_ = Place::top;
        return true;
      case Place::top:
        place_ = in_metadata_ ? Place::metadata : Place::tensor;
        return true;
      default:
        return refuse("an object");
    }
  }
  bool end_object() {
    if (skip_ > 0) return shallower();
    if (place_ == Place::tensor) return close_tensor();
    if (place_ == Place::metadata) return close_metadata();
    place_ = Place::start;
    return true;
  }
  bool start_array(std::size_t) {
    if (skip_ > 0 || (place_ == Place::tensor && !known_key())) return deeper();
    if (place_ != Place::tensor || key_ == "dtype") return refuse("a list");
    place_ = key_ == "shape" ? Place::shape : Place::offsets;
    return true;
  }
  bool end_array() {
    if (skip_ > 0) return shallower();
    place_ = Place::tensor;
    return true;
  }

  bool key(std::string& name) {
    if (skip_ > 0) return true;
    if (place_ == Place::top) return open_entry(name);
    key_ = name;
    if (place_ == Place::metadata || !known_key()) return true;
    const int bit = key_ == "dtype" ? 1 : key_ == "shape" ? 2 : 4;
    if ((seen_ & bit) != 0) return fail(about() + hone::quoted(key_) + " is given twice");
    seen_ |= bit;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) {
    const std::string text = error.what();
    const auto dash = text.find(" - ");
    return fail(fmt::format("its header is not JSON at byte {}{}", position + 8,
                            dash == std::string::npos ? "" : ": " + escape_for_terminal(text.substr(dash + 3), 120)));
  }

 private:
  enum class Place { start, top, metadata, tensor, shape, offsets };

  bool fail(std::string fact) {
    if (fact_.empty()) fact_ = std::move(fact);
    return false;
  }
  std::string about() const {
    if (place_ == Place::start) return "its header: ";
    return in_metadata_ ? "__metadata__: " : "tensor " + hone::quoted(tensor_.name) + ": ";
  }
  bool refuse(const std::string& what) {
    const char* expected = place_ == Place::metadata                            ? "text"
                           : place_ == Place::shape || place_ == Place::offsets ? "whole numbers of 0 or more"
                           : place_ == Place::tensor && key_ == "dtype"         ? "a dtype's name"
                           : place_ == Place::tensor                            ? "a list"
                                                                                : "an object";
    return fail(about() + (place_ == Place::tensor ? key_ + ": " : "") + "got " + what + ", expected " + expected);
  }

  // Values of keys nobody knows are walked over, as the reference does.
  bool known_key() const { return key_ == "dtype" || key_ == "shape" || key_ == "data_offsets"; }
  bool skipped() const { return skip_ > 0 || (place_ == Place::tensor && !known_key()); }
  bool deeper() { return ++skip_ <= kMaxDepth || fail(fmt::format("nested deeper than {}", kMaxDepth)); }
  bool shallower() {
    --skip_;
    return true;
  }

  bool open_entry(const std::string& name) {
    in_metadata_ = name == "__metadata__";
    tensor_ = {};
    offsets_ = seen_ = 0;
    key_.clear();
    if (in_metadata_) return !std::exchange(has_metadata_, true) || fail("\"__metadata__\" is given twice");
    if (out_.tensors.size() >= kMaxTensors) return fail(fmt::format("more than {} tensors", kMaxTensors));
    tensor_.name = name;
    const auto problem = name_problem(name);
    return problem ? fail(about() + *problem) : true;
  }
  bool add_metadata(const std::string& text) {
    if (out_.metadata.size() >= kMaxMetadata)
      return fail(fmt::format("__metadata__: more than {} entries", kMaxMetadata));
    return out_.metadata.emplace(key_, text).second || fail("__metadata__: " + hone::quoted(key_) + " is given twice");
  }
  bool close_metadata() {
    in_metadata_ = false;
    place_ = Place::top;
    return true;
  }
  bool add_size(std::uint64_t size) {
    if (tensor_.shape.size() >= kMaxRank) return fail(about() + fmt::format("shape: more than {} sizes", kMaxRank));
    if (size > static_cast<std::uint64_t>(INT64_MAX)) return refuse(fmt::format("the number {}", size));
    tensor_.shape.push_back(static_cast<std::int64_t>(size));
    return true;
  }
  bool add_offset(std::uint64_t offset) {
    if (offsets_ >= 2) return fail(about() + "data_offsets: more than two numbers");
    (offsets_++ == 0 ? tensor_.begin : tensor_.end) = offset;
    return true;
  }
  bool close_tensor() {
    place_ = Place::top;
    if (seen_ != 7 || offsets_ != 2) return fail(about() + "expected dtype, shape and two data_offsets");
    if (dtype_bits(tensor_.dtype) == 0) return fail(about() + "unknown dtype " + hone::quoted(tensor_.dtype));
    const auto bytes = checked_bytes(tensor_.dtype, tensor_.shape);
    if (!bytes) return fail(about() + "its shape overflows 64 bits, or ends within a byte");
    if (tensor_.begin > tensor_.end || tensor_.bytes() != *bytes)
      return fail(about() + fmt::format("data_offsets [{}, {}] do not hold the {} bytes of its shape", tensor_.begin,
                                        tensor_.end, *bytes));
    tensor_.shape.shrink_to_fit();
    out_.tensors.push_back(std::move(tensor_));
    return true;
  }

  SafetensorsHeader& out_;
  Place place_ = Place::start;
  TensorInfo tensor_;
  std::string key_, fact_;
  bool in_metadata_ = false, has_metadata_ = false;
  int seen_ = 0, offsets_ = 0, skip_ = 0;
};

[[noreturn]] void fail(const InFile& file, const std::string& fact) {
  throw Error(ErrorKind::checkpoint, file.path().string() + ": not a whole safetensors file: " + fact);
}

// Only of a file whose header cannot be one: a length may begin with the same bytes.
void refuse_pickle(const InFile& file, const std::array<unsigned char, 8>& bytes) {
  const bool zip = bytes[0] == 'P' && bytes[1] == 'K' && bytes[2] == 3 && bytes[3] == 4;
  const bool pickle = bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5;
  if (!zip && !pickle) return;
  throw Error(ErrorKind::checkpoint, file.path().string() + ": a pickle file, which can run code; hone never opens one")
      .hint(
          "convert it: python -c \"import torch, safetensors.torch as s; s.save_file(torch.load('model.bin', "
          "weights_only=True), 'model.safetensors')\"");
}

std::uint64_t header_length(const InFile& file) {
  if (file.size() < 8) fail(file, fmt::format("{} bytes, expected at least 8", file.size()));
  std::array<unsigned char, 8> bytes;
  file.read(0, std::as_writable_bytes(std::span(bytes)));
  std::uint64_t length = 0;
  for (int i = 7; i >= 0; --i) length = length << 8 | bytes[static_cast<std::size_t>(i)];
  const std::uint64_t there = file.size() - 8;
  if (length >= 2 && length <= std::min(kMaxHeader, there)) return length;
  refuse_pickle(file, bytes);
  if (length < 2 || length > kMaxHeader)
    fail(file, fmt::format("its header claims {} bytes, expected 2 to {}", length, kMaxHeader));
  fail(file, fmt::format("its header claims {} bytes, {} are there: it was cut off", length, there));
}

// Sorted by place, each tensor begins where the one before ended, from the first data byte to the last of the file.
void check_tiling(const InFile& file, SafetensorsHeader& header) {
  std::sort(header.tensors.begin(), header.tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t at = 0;
  for (const TensorInfo& tensor : header.tensors) {
    if (tensor.begin != at)
      fail(file,
           fmt::format("tensor {}: begins at byte {} of the data, expected {}: tensors {}", hone::quoted(tensor.name),
                       tensor.begin, at, tensor.begin < at ? "overlap" : "leave a hole"));
    at = tensor.end;
  }
  const std::uint64_t there = file.size() - header.data_begin;
  if (at != there)
    fail(file, fmt::format("its tensors need {} bytes, the file has {}: {}", at, there,
                           at > there ? "it was cut off" : "there is more behind them"));
}

void sort_names(const InFile& file, SafetensorsHeader& header) {
  header.by_name.resize(header.tensors.size());
  std::iota(header.by_name.begin(), header.by_name.end(), 0u);
  const auto name = [&](std::uint32_t i) -> const std::string& { return header.tensors[i].name; };
  std::sort(header.by_name.begin(), header.by_name.end(), [&](auto a, auto b) { return name(a) < name(b); });
  const auto twice = std::adjacent_find(header.by_name.begin(), header.by_name.end(),
                                        [&](auto a, auto b) { return name(a) == name(b); });
  if (twice != header.by_name.end()) fail(file, "tensor " + hone::quoted(name(*twice)) + " is given twice");
}

}  // namespace

std::optional<std::string> name_problem(const std::string& name) {
  if (name.empty() || name.size() > kMaxName)
    return fmt::format("its name has {} bytes, expected 1 to {}", name.size(), kMaxName);
  if (std::any_of(name.begin(), name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
    return "its name holds control characters";
  return std::nullopt;
}

std::optional<std::uint64_t> checked_bytes(const std::string& dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t bits = dtype_bits(dtype);
  if (bits == 0) return std::nullopt;
  for (const std::int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(bits, static_cast<std::uint64_t>(size), &bits)) return std::nullopt;
  return bits % 8 == 0 ? std::optional(bits / 8) : std::nullopt;
}

SafetensorsHeader read_safetensors_header(const InFile& file) {
  SafetensorsHeader header;
  const std::uint64_t length = header_length(file);
  header.data_begin = 8 + length;
  std::string text(length, '\0');
  file.read(8, std::as_writable_bytes(std::span(text)));
  const auto first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{') fail(file, "its header is no JSON object");
  // nlohmann takes a NUL for the end of its input, and would not look at what comes after.
  if (text.find('\0') != std::string::npos) fail(file, "its header holds a NUL byte");
  HeaderEvents events(header);
  if (!json::sax_parse(text.begin(), text.end(), &events)) fail(file, events.fact());
  check_tiling(file, header);
  sort_names(file, header);
  return header;
}

}  // namespace hone::io

namespace hone {

std::size_t dtype_bytes(const std::string& dtype) { return io::dtype_bits(dtype) / 8; }

}  // namespace hone
