// tokenizer_config.json beside a good tokenizer.json, a small one that is soon read.
#include "fuzz/fuzz.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/load.h"

namespace {

constexpr const char* kTokenizer = R"({"version": "1.0",
  "added_tokens": [{"id": 5, "content": "<|eos|>", "special": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "Ġ": 2, "Ġb": 3, "<unk>": 4}, "merges": ["Ġ b"]}})";

}  // namespace

HONE_FUZZ(tokenizer_config) {
  const hone::text::Files files = {{"tokenizer.json", kTokenizer}, {"tokenizer_config.json", std::string(input)}};
  const auto tokenizer = hone::text::make_tokenizer(files, {}, "fuzz");
  tokenizer->decode(tokenizer->encode("a <|eos|> b").ids);
  hone::text::ChatTemplate::of(*tokenizer);
}
