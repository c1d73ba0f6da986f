// The wire form of protocol buffers, read field by field within the bytes that are there.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace hone::text {

struct ProtoField {
  std::uint32_t number = 0;
  std::uint64_t value = 0;  // a number, or the bits of a fixed one
  std::string_view bytes;   // of a string or an inner message
};

class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : bytes_(bytes) {}
  // The next field; nothing at the end or where the bytes are damaged (see failed()).
  std::optional<ProtoField> next();
  bool failed() const { return failed_; }

 private:
  bool number(std::uint64_t& value);
  std::string_view bytes_;
  bool failed_ = false;
};

}  // namespace hone::text
