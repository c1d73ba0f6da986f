// Protobuf's wire format, without protobuf: fields of messages, written and read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hone::trackers {

std::string little_endian(std::uint64_t value, int size);
std::uint64_t from_little_endian(std::string_view bytes);

// A field with its number; a message is its fields, one after the other.
std::string int_field(std::uint64_t number, std::uint64_t value);
std::string bytes_field(std::uint64_t number, std::string_view content);  // a text, or a message within one
std::string real_field(std::uint64_t number, double value);
std::string real_field(std::uint64_t number, float value);

// The fields of a message, one after the other, up to its end or to what is none.
class Fields {
 public:
  explicit Fields(std::string_view message) : left_(message) {}
  std::uint64_t number = 0;
  std::uint64_t value = 0;   // of an integer, or the bits of a real
  std::string_view content;  // of bytes
  bool next();

 private:
  bool take(std::uint64_t size);
  bool take_fixed(std::uint64_t size);
  bool take_varint(std::uint64_t& result);
  std::string_view left_;
};

}  // namespace hone::trackers
