// What hone's tokenizers make of texts, as JSON lines: the half of tools/compare/compare_tokenizers.py that is ours.
//
// tokenizer_lines TOKENIZER: each line of standard input is {"text": .., "pair": ..} or {"ids": [..]}; the answer has
// ids, offsets in characters, masks, decoded text and whether streaming gives the same, also behind a part of the ids
// that is skipped, or the error. {"files": true} asks for the tokenizer's files.
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "text/tokenizer/prompted_decoder.h"

namespace {

using hone::Encoding;
using hone::FullEncoding;
using hone::TextPair;
using nlohmann::json;

json in_characters(const TextPair& texts, const FullEncoding& e) {
  const auto first = hone::in_characters(texts.first, e.offsets);
  const auto second = hone::in_characters(texts.second.value_or(""), e.offsets);
  json out = json::array();
  // Without a post-processor the library does not say which text an overflowing part is of; the types do.
  const bool told = std::count(e.sequences.begin(), e.sequences.end(), 1) > 0;
  for (std::size_t i = 0; i < e.ids.size(); ++i) {
    const bool of_second = texts.second && (told ? e.sequences[i] : e.type_ids[i]) == 1;
    out.push_back(of_second ? second[i] : first[i]);
  }
  return out;
}

json full(const TextPair& texts, const FullEncoding& e) {
  json out = {{"ids", e.ids},
              {"types", e.type_ids},
              {"words", e.words},
              {"sequences", e.sequences},
              {"special", e.special_mask},
              {"attention", e.attention_mask},
              {"offsets", in_characters(texts, e)}};
  for (const FullEncoding& more : e.overflow) out["overflow"].push_back(full(texts, more));
  return out;
}

using Ids = std::vector<std::int32_t>;

std::string streamed(const hone::Tokenizer& tokenizer, const Ids& prompt, const Ids& ids) {
  hone::text::PromptedDecoder decoder(tokenizer, prompt);
  std::string text;
  for (const std::int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

// Behind nothing, and behind parts of the ids whose text the text of all begins with.
bool streams(const hone::Tokenizer& tokenizer, const Ids& ids, const std::string& all) {
  if (streamed(tokenizer, {}, ids) != all) return false;
  const std::size_t parts = std::min<std::size_t>(ids.size(), 7);
  for (std::size_t part = 1; part <= parts; ++part) {
    const auto cut = ids.begin() + static_cast<std::ptrdiff_t>(ids.size() * part / parts);
    const std::string before = tokenizer.decode({ids.begin(), cut});
    if (all.starts_with(before) &&
        streamed(tokenizer, {ids.begin(), cut}, {cut, ids.end()}) != all.substr(before.size()))
      return false;
  }
  return true;
}

json answer(const hone::Tokenizer& tokenizer, const json& question) {
  json out;
  if (question.contains("files")) return tokenizer.files;
  Ids ids;
  if (question.contains("ids")) {
    ids = question["ids"].get<Ids>();
  } else {
    const std::string text = question["text"], pair = question.value("pair", "");
    TextPair texts{text, question.contains("pair") ? std::optional<std::string_view>(pair) : std::nullopt};
    if (!texts.second) {
      const Encoding e = tokenizer.encode(text);
      ids = e.ids;
      out["ids"] = e.ids;
      out["offsets"] = hone::in_characters(text, e.offsets);
    }
    out["full"] = full(texts, tokenizer.encode_full({&texts, 1}, question.value("special", true))[0]);
  }
  out["decoded"] = tokenizer.decode(ids);
  out["plain"] = tokenizer.decode(ids, false);
  out["stream"] = streams(tokenizer, ids, out["decoded"]);
  return out;
}

}  // namespace

int main(int, char** argv) {
  std::shared_ptr<const hone::Tokenizer> tokenizer;
  std::string failure;
  try {
    tokenizer = hone::load_tokenizer(argv[1]);
  } catch (const std::exception& error) {
    failure = error.what();
  }
  for (std::string line; std::getline(std::cin, line);) {
    json out;
    try {
      if (!tokenizer) throw std::runtime_error(failure);
      out = answer(*tokenizer, json::parse(line));
    } catch (const std::exception& error) {
      out = {{"error", error.what()}};
    }
    std::cout << out.dump(-1, ' ', true, json::error_handler_t::replace) << '\n';
  }
}
