// tokenizer.json: a tokenizer that was accepted encodes and decodes, with ids that it knows, and can be given a token.
#include <array>

#include "fuzz/fuzz.h"
#include "text/tokenizer/load.h"

HONE_FUZZ(tokenizer_json) {
  const auto tokenizer = hone::text::make_tokenizer({{"tokenizer.json", std::string(input)}}, {}, "fuzz");
  const std::array<hone::TextPair, 2> pairs = {{{"Hello, 12", "wörld é"}, {"\xE4\xBD\xA0 a", std::nullopt}}};
  for (const hone::FullEncoding& found : tokenizer->encode_full(pairs))
    hone::fuzz::require(found.ids.size() == found.attention_mask.size(), "every id has its mask");
  const auto more = hone::add_tokens(*tokenizer, {{"<|added|>"}});
  hone::fuzz::require(more->id_of("<|added|>").has_value(), "an added token is there");
  hone::fuzz::require(more->vocab_size() >= tokenizer->vocab_size(), "and takes none away");
  for (const char* text : {"", "Hello, wörld!  12\n", "<|eos|> \xF0\x9F\x98\x80\t'll", "\xff\xc3"}) {
    const hone::Encoding found = tokenizer->encode(text);
    hone::fuzz::require(found.ids.size() == found.offsets.size(), "every id has its place in the text");
    for (const std::int32_t id : found.ids)
      hone::fuzz::require(id >= 0 && id < tokenizer->vocab_size(), "ids are below vocab_size");
    tokenizer->decode(found.ids, false);
  }
}
