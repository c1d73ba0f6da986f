// tiktoken files: ranks become ids and merges; how texts are cut is known for the well-known ones.
#include <fmt/format.h>

#include <algorithm>

#include "base/strings.h"
#include "text/formats/base64.h"
#include "text/formats/conversion.h"
#include "text/parts/component.h"
#include "text/parts/vocabulary.h"
#include "text/regex/scanners.h"
#include "text/unicode/unicode.h"

namespace hone::text {
namespace {

constexpr std::size_t kLongestToken = 1024;  // bytes

struct Known {
  const char* name;
  std::size_t tokens;
  Scanner scanner;
  std::vector<SpecialToken> special;
  const char* bos;
  const char* eos;
};

std::vector<SpecialToken> numbered(std::int32_t first, std::initializer_list<const char*> contents) {
  std::vector<SpecialToken> tokens;
  for (const char* content : contents) tokens.push_back({first++, content});
  return tokens;
}

std::vector<SpecialToken> llama3() {
  auto tokens =
      numbered(128000, {"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
                        "<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|reserved_special_token_2|>",
                        "<|start_header_id|>", "<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"});
  for (int i = 3; i < 248; ++i) tokens.push_back({128008 + i, fmt::format("<|reserved_special_token_{}|>", i)});
  return tokens;
}

std::vector<SpecialToken> qwen() {
  auto tokens = numbered(151643, {"<|endoftext|>", "<|im_start|>", "<|im_end|>"});
  for (int i = 0; i < 205; ++i) tokens.push_back({151646 + i, fmt::format("<|extra_{}|>", i)});
  return tokens;
}

std::vector<Known> known_files() {
  return {
      {"r50k_base (GPT-2)", 50256, Scanner::gpt2, {{50256, "<|endoftext|>"}}, nullptr, "<|endoftext|>"},
      {"p50k_base", 50280, Scanner::gpt2, {{50256, "<|endoftext|>"}}, nullptr, "<|endoftext|>"},
      {"cl100k_base",
       100256,
       Scanner::llama3,
       {{100257, "<|endoftext|>"},
        {100258, "<|fim_prefix|>"},
        {100259, "<|fim_middle|>"},
        {100260, "<|fim_suffix|>"},
        {100276, "<|endofprompt|>"}},
       nullptr,
       "<|endoftext|>"},
      {"o200k_base",
       199998,
       Scanner::o200k,
       {{199999, "<|endoftext|>"}, {200018, "<|endofprompt|>"}},
       nullptr,
       "<|endoftext|>"},
      {"Llama 3", 128000, Scanner::llama3, llama3(), "<|begin_of_text|>", "<|end_of_text|>"},
      {"Qwen", 151643, Scanner::qwen2, qwen(), nullptr, "<|endoftext|>"},
  };
}

struct Ranks {
  std::vector<std::pair<std::int32_t, std::string>> tokens;  // by rank
  Vocabulary by_bytes;
};

Ranks read_ranks(std::string_view text, const std::string& where) {
  Ranks ranks;
  for (std::size_t at = 0, line = 1; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view row = text.substr(at, end - at - (end > at && text[end - 1] == '\r'));
    at = end + 1;
    if (row.empty()) continue;
    const std::size_t blank = std::min(row.find(' '), row.size() - 1);
    auto bytes = from_base64(row.substr(0, blank));
    const std::uint64_t rank = parse_uint(row.substr(blank + 1)).value_or(kMaxId);
    if (!bytes || bytes->empty() || bytes->size() > kLongestToken || rank >= static_cast<std::uint64_t>(kMaxId))
      fail_at(fmt::format("{}:{}", where, line), "expected base64 of a token's bytes, a blank and its rank");
    const auto id = static_cast<std::int32_t>(rank);
    if (!ranks.by_bytes.add(*bytes, id))
      fail_at(fmt::format("{}:{}", where, line), "the token or its rank is there twice");
    ranks.tokens.emplace_back(id, std::move(*bytes));
  }
  std::sort(ranks.tokens.begin(), ranks.tokens.end());
  return ranks;
}

std::string spelled(std::string_view bytes) {
  std::string text;
  for (const char b : bytes) append_utf8(text, byte_characters()[static_cast<unsigned char>(b)]);
  return text;
}

// Every cut of a token into two tokens is a merge, in the order of ranks; all whole words are tokens by themselves.
// Special tokens are there too: ids of added tokens that the model does not know have no holes.
std::string model_text(const Ranks& ranks, const std::vector<SpecialToken>& special) {
  std::string text =
      R"({"type":"BPE","dropout":null,"unk_token":null,"continuing_subword_prefix":null,)"
      R"("end_of_word_suffix":null,"fuse_unk":false,"byte_fallback":false,"ignore_merges":true,"vocab":{)";
  bool first = true;
  for (const auto& [id, bytes] : ranks.tokens) {
    if (!first) text += ',';
    first = false;
    append_json_string(text, spelled(bytes));
    text += fmt::format(":{}", id);
  }
  for (const SpecialToken& token : special) {
    text += ',';
    append_json_string(text, token.content);
    text += fmt::format(":{}", token.id);
  }
  text += R"(},"merges":[)";
  first = true;
  std::vector<std::pair<std::int32_t, std::int32_t>> cuts;
  for (const auto& [id, bytes] : ranks.tokens) {
    cuts.clear();
    for (std::size_t at = 1; at < bytes.size(); ++at) {
      const std::string_view whole = bytes;
      const std::int32_t left = ranks.by_bytes.find(whole.substr(0, at)), right = ranks.by_bytes.find(whole.substr(at));
      if (left >= 0 && right >= 0) cuts.emplace_back(left, right);
    }
    std::sort(cuts.begin(), cuts.end());
    for (const auto& [left, right] : cuts) {
      text += first ? "[" : ",[";
      first = false;
      append_json_string(text, spelled(ranks.by_bytes.token(left)));
      text += ',';
      append_json_string(text, spelled(ranks.by_bytes.token(right)));
      text += ']';
    }
  }
  return text + "]}";
}

const Known& find_known(const std::vector<Known>& known, std::size_t tokens, const std::string& where) {
  std::string names;
  for (const Known& k : known) {
    if (k.tokens == tokens) return k;
    names += fmt::format("{}{} of {}", names.empty() ? "" : ", ", k.tokens, k.name);
  }
  throw Error(ErrorKind::config,
              fmt::format("{}: a tiktoken file of {} tokens does not say how texts are cut into words; "
                          "expected {}",
                          where, tokens, names))
      .hint("convert it once to tokenizer.json with transformers' TikTokenConverter, which takes the pattern");
}

}  // namespace

bool is_tiktoken(std::string_view text) {
  const std::string_view row = text.substr(0, std::min<std::size_t>(text.find('\n'), 4096));
  const std::size_t blank = std::min(row.find(' '), row.size() - 1);
  return blank != std::string_view::npos && from_base64(row.substr(0, blank)).has_value() &&
         row.find_first_not_of("0123456789\r", blank + 1) == std::string_view::npos && blank + 1 < row.size();
}

Files tiktoken_files(std::string_view text, const std::string& where) {
  const Ranks ranks = read_ranks(text, where);
  const std::vector<Known> all = known_files();
  const Known& known = find_known(all, ranks.tokens.size(), where);
  TokenizerParts parts;
  for (const SpecialToken& token : known.special) parts.added.push_back(token);
  const OrderedJson spell = {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", false}};
  const OrderedJson split = {{"type", "Split"},
                             {"pattern", {{"Regex", scanner_pattern(known.scanner)}}},
                             {"behavior", "Isolated"},
                             {"invert", false}};
  parts.pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", {split, spell}}};
  parts.decoder = spell;
  OrderedJson config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  if (known.bos) config["bos_token"] = known.bos;
  config["eos_token"] = known.eos;
  return {{"tokenizer.json", tokenizer_json_text(parts, model_text(ranks, known.special))},
          {"tokenizer_config.json", config.dump(2)}};
}

}  // namespace hone::text
