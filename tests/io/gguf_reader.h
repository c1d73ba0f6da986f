// A GGUF file read back, as far as tests look at it.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace hone::test {

// 64 bits, FNV-1a, in hexadecimal.
inline std::string fnv(std::string_view bytes) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (const char c : bytes) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

struct ReadGguf {
  struct Tensor {
    std::uint32_t type = 0;
    std::vector<std::int64_t> shape;  // rows first
    std::uint64_t place = 0;          // in the data
  };
  std::map<std::string, nlohmann::json> keys;
  std::map<std::string, std::string> list_bytes;  // of keys that are lists: texts with a zero behind each, or numbers
  std::string first_key;
  std::map<std::string, Tensor> tensors;
  std::string data;

  explicit ReadGguf(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(in), {});
    if (take(4) != "GGUF" || number<std::uint32_t>() != 3) throw std::runtime_error(path + ": no GGUF 3");
    const auto tensor_count = number<std::uint64_t>(), key_count = number<std::uint64_t>();
    for (std::uint64_t i = 0; i < key_count; ++i) {
      const std::string key = text();
      if (i == 0) first_key = key;
      if (keys.contains(key)) throw std::runtime_error(key + ": twice");
      keys[key] = value(number<std::uint32_t>(), key);
    }
    for (std::uint64_t i = 0; i < tensor_count; ++i) read_tensor();
    at_ = (at_ + 31) / 32 * 32;
    data = bytes_.substr(at_);
  }

  std::string bytes_of(const std::string& tensor, std::uint64_t size) const {
    return data.substr(tensors.at(tensor).place, size);
  }

 private:
  std::string take(std::size_t size) {
    if (at_ + size > bytes_.size()) throw std::runtime_error("the file ends too early");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  template <class T>
  T number() {
    T made;
    std::memcpy(&made, take(sizeof made).data(), sizeof made);
    return made;
  }
  std::string text() { return take(number<std::uint64_t>()); }
  void read_tensor() {
    const std::string name = text();
    Tensor& tensor = tensors[name];
    const auto dimensions = number<std::uint32_t>();
    for (std::uint32_t i = 0; i < dimensions; ++i)
      tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(number<std::uint64_t>()));
    tensor.type = number<std::uint32_t>();
    tensor.place = number<std::uint64_t>();
    if (tensor.place % 32 != 0) throw std::runtime_error(name + ": not aligned");
  }
  nlohmann::json value(std::uint32_t type, const std::string& key) {
    switch (type) {
      case 0:
        return number<std::uint8_t>();
      case 4:
        return number<std::uint32_t>();
      case 5:
        return number<std::int32_t>();
      case 6:
        return number<float>();
      case 7:
        return number<std::uint8_t>() != 0;
      case 8:
        return text();
      case 9:
        break;
      default:
        throw std::runtime_error(key + ": a type of value that hone does not write");
    }
    const auto of = number<std::uint32_t>();
    const auto count = number<std::uint64_t>();
    nlohmann::json list = nlohmann::json::array();
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::size_t begin = at_;
      list.push_back(value(of, key));
      list_bytes[key] += of == 8 ? list.back().get<std::string>() + '\0' : bytes_.substr(begin, at_ - begin);
    }
    return list;
  }

  std::string bytes_;
  std::size_t at_ = 0;
};

}  // namespace hone::test
