// What is put around the tokens of a text, and the trimming of their offsets: `post_processor` of tokenizer.json.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

namespace hone::text {

// For one text (not a pair). A value; immutable after construction.
class PostProcessor {
 public:
  PostProcessor() = default;
  // Sequences are laid out flat. null does nothing. `where` begins every message.
  PostProcessor(const nlohmann::json& config, const std::string& where);

  // Whether offsets leave out the blanks of a token, once per entry; true: but for one blank that was put before the
  // text.
  const std::vector<bool>& trims() const { return trims_; }
  // Ids before, between and after the copies of the text: with n copies there are n + 1 of them. Usually one copy.
  const std::vector<std::vector<std::int32_t>>& around() const { return around_; }

  void replace_around(std::vector<std::vector<std::int32_t>> around) { around_ = std::move(around); }

 private:
  void add(const nlohmann::json& config, const std::string& where);
  void add_template(const nlohmann::json& config, const std::string& where);
  void set_around(std::vector<std::vector<std::int32_t>> around, const std::string& where);
  std::vector<bool> trims_;
  std::vector<std::vector<std::int32_t>> around_ = {{}, {}};
  bool adds_tokens_ = false;
};

}  // namespace hone::text
