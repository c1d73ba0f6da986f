// What hone learns of conversations, as JSON lines: the half of tools/compare/compare_chat_masks.py that is ours.
//
// chat_lines: each line of standard input is {"tokenizer": folder}, which the records after it use, or a record as in
// JSON Lines data; the answer to a record has ids and labels, or the error.
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "data/fields.h"
#include "data/tokenise.h"
#include "hone/text.h"

int main() {
  using nlohmann::ordered_json;
  const std::string source = "stdin";
  hone::data::FieldMap fields({source, {}, {}});
  std::shared_ptr<const hone::Tokenizer> tokenizer;
  std::unique_ptr<hone::data::Tokenising> how;
  std::int64_t number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    const ordered_json value = ordered_json::parse(line);
    if (value.contains("tokenizer")) {
      tokenizer = hone::load_tokenizer(value["tokenizer"]);
      how = std::make_unique<hone::data::Tokenising>(*tokenizer, true, std::nullopt);
      number = 0;
      continue;
    }
    ordered_json answer;
    try {
      hone::Record record;
      fields.read(value, {source, ++number}, record);
      const hone::Tokens tokens = hone::data::to_tokens(record, *how, source);
      answer = {{"ids", tokens.ids}, {"labels", tokens.labels}};
    } catch (const hone::Error& error) {
      answer = {{"error", error.what()}};
    }
    std::cout << answer.dump(-1, ' ', false, ordered_json::error_handler_t::replace) << '\n';
  }
}
