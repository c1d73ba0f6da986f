// The small tokenizers of tests/golden/text/made.json and what the tokenizers library makes of texts with them.
#pragma once

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "text/tokenizer/load.h"

namespace hone::text {

template <class Json = nlohmann::json>
Json read_golden(const std::string& name) {
  std::ifstream file(std::string(HONE_SOURCE_DIR) + "/tests/golden/text/" + name);
  return Json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
}

inline const nlohmann::json& made_golden() {
  static const nlohmann::json golden = read_golden("made.json");
  return golden;
}

// tokenizer.json of a case, or of any parts over one of the golden's models.
inline nlohmann::json tokenizer_json(const std::string& model, const nlohmann::json& parts) {
  nlohmann::json config = {{"version", "1.0"}};
  config.update(parts);
  config["model"] = made_golden()["models"][model];
  return config;
}

inline std::shared_ptr<const Tokenizer> make(const nlohmann::json& config, Files more = {},
                                             const Files& fallback = {}) {
  more.insert(more.begin(), {"tokenizer.json", config.dump()});
  return make_tokenizer(std::move(more), fallback, "folder");
}

inline std::shared_ptr<const Tokenizer> made(const std::string& name) {
  for (const auto& c : made_golden()["cases"])
    if (c["name"] == name) return make(tokenizer_json(c["model"], c["parts"]));
  throw Error(ErrorKind::bug, "no golden " + name);
}

inline std::string streamed(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  StreamDecoder decoder(tokenizer);
  std::string text;
  for (const std::int32_t id : ids) text += decoder.push(id);
  return text + decoder.finish();
}

}  // namespace hone::text
