// Any text through the tokenizer of bytes and back, whole and in pieces.
#include "base/strings.h"
#include "fuzz/fuzz.h"
#include "hone/text.h"

HONE_FUZZ(bytes_tokenizer) {
  static const auto tokenizer = hone::load_tokenizer("bytes");
  const std::vector<std::int32_t> ids = tokenizer->encode(input).ids;
  const std::string text = tokenizer->decode(ids, false);
  if (hone::is_utf8(input)) hone::fuzz::require(text == input, "decoded it is the text that was encoded");
  hone::StreamDecoder decoder(*tokenizer);
  std::string pieces;
  for (const std::int32_t id : ids) pieces += decoder.push(id);
  pieces += decoder.finish();
  hone::fuzz::require(pieces == tokenizer->decode(ids), "the pieces of a stream are the whole");
}
