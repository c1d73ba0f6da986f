// The wire form of protocol buffers, also as messages in messages.
#include "fuzz/fuzz.h"
#include "text/formats/protobuf.h"

namespace {

std::size_t count(std::string_view bytes, int depth) {
  hone::text::ProtoReader reader(bytes);
  std::size_t fields = 0;
  while (const auto field = reader.next()) {
    const std::string_view inner = field->bytes;
    hone::fuzz::require(
        inner.empty() || (inner.data() >= bytes.data() && inner.data() + inner.size() <= bytes.data() + bytes.size()),
        "a field lies in its message");
    fields += 1 + (depth > 0 ? count(inner, depth - 1) : 0);
  }
  hone::fuzz::require(!reader.next(), "after the end there is nothing");
  return fields;
}

}  // namespace

HONE_FUZZ(protobuf) { hone::fuzz::require(count(input, 4) <= 5 * input.size(), "a field has a byte or more"); }
