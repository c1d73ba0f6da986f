// The bytes of a GGUF file.
#include "io/gguf.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace hone::io {
namespace {

constexpr std::uint64_t kAlignment = 32;
constexpr std::string_view kMagic = "GGUF";
constexpr std::uint32_t kVersion = 3;

struct TypeFacts {
  GgufType type;
  std::string_view name;
  std::int64_t values, bytes;
};
constexpr std::array kTypes = std::to_array<TypeFacts>({{GgufType::f32, "F32", 1, 4},
                                                        {GgufType::f16, "F16", 1, 2},
                                                        {GgufType::bf16, "BF16", 1, 2},
                                                        {GgufType::q4_0, "Q4_0", 32, 18},
                                                        {GgufType::q4_1, "Q4_1", 32, 20},
                                                        {GgufType::q5_0, "Q5_0", 32, 22},
                                                        {GgufType::q5_1, "Q5_1", 32, 24},
                                                        {GgufType::q8_0, "Q8_0", 32, 34},
                                                        {GgufType::q2_k, "Q2_K", 256, 84},
                                                        {GgufType::q3_k, "Q3_K", 256, 110},
                                                        {GgufType::q4_k, "Q4_K", 256, 144},
                                                        {GgufType::q5_k, "Q5_K", 256, 176},
                                                        {GgufType::q6_k, "Q6_K", 256, 210}});

const TypeFacts& facts_of(GgufType type) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeFacts& t) { return t.type == type; });
  HONE_ASSERT(found != kTypes.end());
  return *found;
}

// The format's numbers of types of values.
enum ValueType : std::uint32_t {
  kUint8 = 0,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9
};

// The head of a file as it grows.
struct Head {
  std::string bytes;

  template <class T>
  void number(T value) {
    static_assert(std::is_arithmetic_v<T>);
    char raw[sizeof(T)];
    std::memcpy(raw, &value, sizeof(T));
    bytes.append(raw, sizeof(T));
  }
  void text(std::string_view value) {
    number<std::uint64_t>(value.size());
    bytes += value;
  }
  void type(ValueType type) { number<std::uint32_t>(type); }

  void value(bool v) { type(kBool), number<std::uint8_t>(v); }
  void value(std::uint32_t v) { type(kUint32), number(v); }
  void value(std::int32_t v) { type(kInt32), number(v); }
  void value(float v) { type(kFloat32), number(v); }
  void value(const std::string& v) { type(kString), text(v); }
  void value(const std::vector<bool>& v) { list(kBool, v, [&](bool x) { number<std::uint8_t>(x); }); }
  void value(const std::vector<std::uint8_t>& v) { list(kUint8, v, [&](std::uint8_t x) { number(x); }); }
  void value(const std::vector<std::int32_t>& v) { list(kInt32, v, [&](std::int32_t x) { number(x); }); }
  void value(const std::vector<float>& v) { list(kFloat32, v, [&](float x) { number(x); }); }
  void value(const std::vector<std::string>& v) { list(kString, v, [&](const std::string& x) { text(x); }); }

 private:
  template <class List, class Each>
  void list(ValueType of, const List& values, const Each& each) {
    type(kArray), type(of);
    number<std::uint64_t>(values.size());
    for (const auto& x : values) each(x);
  }
};

std::uint64_t padding(std::uint64_t size) { return (kAlignment - size % kAlignment) % kAlignment; }

std::string head_of(const GgufKeys& keys, const std::vector<GgufTensor>& tensors) {
  Head head;
  head.bytes = kMagic;
  head.number(kVersion);
  head.number<std::uint64_t>(tensors.size());
  head.number<std::uint64_t>(keys.all().size());
  for (const auto& [key, value] : keys.all()) {
    head.text(key);
    std::visit([&](const auto& v) { head.value(v); }, value);
  }
  std::uint64_t place = 0;
  for (const GgufTensor& tensor : tensors) {
    head.text(tensor.name);
    head.number<std::uint32_t>(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size)
      head.number<std::uint64_t>(static_cast<std::uint64_t>(*size));
    head.number(static_cast<std::uint32_t>(tensor.type));
    head.number(place);
    place += tensor.bytes() + padding(tensor.bytes());
  }
  head.bytes.append(padding(head.bytes.size()), '\0');
  return head.bytes;
}

}  // namespace

std::string_view name_of(GgufType type) { return facts_of(type).name; }
std::int64_t block_values(GgufType type) { return facts_of(type).values; }
std::int64_t block_bytes(GgufType type) { return facts_of(type).bytes; }

std::uint64_t gguf_bytes(GgufType type, std::int64_t numbers) {
  HONE_ASSERT(numbers % block_values(type) == 0);
  return static_cast<std::uint64_t>(numbers / block_values(type) * block_bytes(type));
}

void GgufKeys::set(const std::string& key, GgufValue value) {
  for (auto& [name, old] : entries_)
    if (name == key) return void(old = std::move(value));
  entries_.emplace_back(key, std::move(value));
}

const GgufValue* GgufKeys::find(std::string_view key) const {
  for (const auto& [name, value] : entries_)
    if (name == key) return &value;
  return nullptr;
}

std::int64_t GgufTensor::numel() const {
  std::int64_t numel = 1;
  for (const std::int64_t size : shape) numel *= size;
  return numel;
}

GgufWriter::GgufWriter(OutFile file, const GgufKeys& keys, std::vector<GgufTensor> tensors)
    : file_(std::move(file)), tensors_(std::move(tensors)) {
  file_.write(head_of(keys, tensors_));
  if (!tensors_.empty()) left_ = tensors_[0].bytes();
}

void GgufWriter::write(std::span<const std::byte> bytes) {
  HONE_ASSERT(bytes.size() <= left_);
  file_.write(bytes);
  left_ -= bytes.size();
  if (left_ > 0) return;
  pad();
  left_ = ++next_ < tensors_.size() ? tensors_[next_].bytes() : 0;
}

void GgufWriter::pad() {
  constexpr std::array<std::byte, kAlignment> zeros{};
  file_.write(std::span(zeros).first(padding(tensors_[next_].bytes())));
}

void GgufWriter::finish() {
  HONE_ASSERT(next_ == tensors_.size());
  file_.sync();
  file_.close();
}

std::string why_not_our_gguf(const Folder& folder, const std::string& name) {
  if (folder.is_folder(name)) return "it is a folder";
  const InFile file(folder, name);
  std::string head(kMagic.size() + 4 + 8 + 8 + 8 + std::strlen(kGgufMaker), '\0');
  if (file.size() < head.size()) return "hone did not write it";
  file.read(0, std::as_writable_bytes(std::span(head)));
  return head.starts_with(kMagic) && head.ends_with(kGgufMaker) ? "" : "hone did not write it";
}

}  // namespace hone::io
