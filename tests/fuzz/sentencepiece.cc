// A SentencePiece model: what was accepted becomes a tokenizer that encodes and decodes.
#include "fuzz/fuzz.h"
#include "text/formats/conversion.h"
#include "text/tokenizer/load.h"

HONE_FUZZ(sentencepiece) {
  using namespace hone;
  text::is_sentencepiece(input);
  const auto tokenizer = text::make_tokenizer(text::sentencepiece_files(input, "fuzz"), {}, "fuzz");
  for (const char* text : {"", "ab  a b", "Hello, wörld!\n\xF0\x9F\x98\x80"}) {
    const Encoding found = tokenizer->encode(text);
    for (const std::int32_t id : found.ids)
      fuzz::require(id >= 0 && id < tokenizer->vocab_size(), "ids are below vocab_size");
    tokenizer->decode(found.ids, false);
  }
}
