// What is put around the tokens of a text or a pair, and the trimming of offsets: `post_processor` of tokenizer.json.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/parts/draft.h"

namespace hone::text {

// One step over the parts of an encoding: at first one per text. Immutable: any thread may call it.
class PostStep {
 public:
  virtual ~PostStep() = default;
  // texts: what the offsets of the first and second part count in.
  virtual void apply(std::vector<Draft>& parts, bool special, const TextPair& texts) const = 0;
  virtual std::size_t added(bool pair) const = 0;  // tokens that apply() adds
  // Whether offsets leave out the blanks of a token; true: but for one blank that was put before the text.
  virtual std::optional<bool> trims() const { return std::nullopt; }
};

class PostProcessor {
 public:
  PostProcessor() = default;
  // Sequences are laid out flat. null does nothing. `where` begins every message.
  PostProcessor(const nlohmann::json& config, const std::string& where);

  // A text or a pair after truncation: one part each.
  Draft apply(std::vector<Draft> parts, bool special, const TextPair& texts) const;
  std::size_t added(bool pair) const;

  // The same for one text in a shorter form. Whether offsets leave out blanks, once per entry.
  const std::vector<bool>& trims() const { return trims_; }
  // Ids before, between and after the copies of the text: with n copies there are n + 1 of them. Usually one copy.
  const std::vector<std::vector<std::int32_t>>& around() const { return around_; }

 private:
  void add(const nlohmann::json& config, const std::string& where);
  void add_adding(std::unique_ptr<PostStep> step, const std::string& where);
  void find_short_form();
  bool present_ = false, adds_tokens_ = false;
  std::vector<std::unique_ptr<PostStep>> steps_;
  std::vector<bool> trims_;
  std::vector<std::vector<std::int32_t>> around_ = {{}, {}};
};

std::unique_ptr<PostStep> make_template(const nlohmann::json& config, const std::string& where);

}  // namespace hone::text
