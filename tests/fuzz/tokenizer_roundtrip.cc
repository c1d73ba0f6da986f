// Any text through one of the tokenizers that the golden files hold (the first byte says which), and back.
#include "base/strings.h"
#include "fuzz/fuzz.h"
#include "text/made_golden.h"

namespace {

using namespace hone;

struct Made {
  std::shared_ptr<const Tokenizer> tokenizer;
  bool exact = false;  // decoded, a text is what it was: nothing normalises it or drops parts of it
};

std::vector<Made> make_all() {
  std::vector<Made> all;
  for (const char* name : {"gpt2", "llama3", "regex-o200k", "regex-deepseek", "regex-quantifiers", "llama2"})
    all.push_back({text::made(name), true});
  for (const char* name : {"qwen", "roberta", "added", "suffix", "prefix", "unknown-fused", "metaspace-always"})
    all.push_back({text::made(name)});
  const nlohmann::json more = text::read_golden("components.json");
  for (const auto& c : more["cases"]) {
    nlohmann::json config = {{"version", "1.0"}};
    config.update(c["parts"]);
    config["model"] = more["models"][c["model"].get<std::string>()];
    if (!c["name"].get<std::string>().starts_with("limits")) all.push_back({text::make(config)});
  }
  return all;
}

void check(const Made& made, std::string_view given) {
  const Tokenizer& tokenizer = *made.tokenizer;
  const Encoding found = tokenizer.encode(given, false);
  fuzz::require(found.ids.size() == found.offsets.size(), "every id has its place in the text");
  for (const std::int32_t id : found.ids)
    fuzz::require(id >= 0 && id < tokenizer.vocab_size(), "ids are below vocab_size");
  for (const auto& [begin, end] : found.offsets)
    fuzz::require(begin <= end && end <= given.size(), "offsets lie in the text");
  const std::string decoded = tokenizer.decode(found.ids, false);
  // "\u2581" stands for a space, where it does.
  // Behind a special token, which '<' begins, a space may be put.
  if (made.exact && given.find("\xE2\x96\x81") == std::string_view::npos && given.find('<') == std::string_view::npos)
    fuzz::require(decoded == given, "decoded it is the text that was encoded");
  fuzz::require(is_utf8(decoded), "what is decoded is UTF-8");
  fuzz::require(text::streamed(tokenizer, found.ids) == tokenizer.decode(found.ids), "a stream's pieces are the whole");
  const std::string_view half = given.substr(0, given.size() / 2);
  if (!is_utf8(half)) return;
  const TextPair pair{given, half};
  for (const FullEncoding& e : tokenizer.encode_full({&pair, 1}))
    fuzz::require(e.ids.size() == e.offsets.size() && e.ids.size() == e.special_mask.size(), "every id has its parts");
}

}  // namespace

HONE_FUZZ(tokenizer_roundtrip) {
  static const std::vector<Made> all = make_all();
  if (input.empty()) return;
  const std::string given = with_replaced_utf8(input.substr(1));
  check(all[static_cast<unsigned char>(input[0]) % all.size()], given);
}
