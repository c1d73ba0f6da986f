// Answers held to a form (GenerateConfig::regex, json_schema): what each token may be.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hone/generate.h"
#include "text/form/token_form.h"

namespace hone::generate {

// The form that a configuration asks for, over the model's tokens; null: none. The latest ones are kept for the next
// call. Any thread. Error(config): it cannot be held, or two are asked for.
std::shared_ptr<text::TokenForm> form_of(const GenerateConfig& config, const Tokenizer& tokenizer,
                                         std::int64_t vocab_size);

// The same of a language that the caller makes, which `key` tells from others; `what` begins messages of it.
struct MadeForm {
  std::string what, key;
  std::function<text::Grammar()> make;  // throws Error(config)
};
std::shared_ptr<text::TokenForm> form_of(const MadeForm& form, const Tokenizer& tokenizer, std::int64_t vocab_size);

// That answers to a prompt can be held to the form that a configuration asks for, if any. Error(config).
void check_form(const GenerateConfig& config, const Model& model, const Tokenizer& tokenizer,
                std::span<const std::int32_t> prompt);
// The same of a form that was made; what: begins the message.
void check_form(const std::shared_ptr<text::TokenForm>& form, const std::string& what, const Tokenizer& tokenizer,
                std::span<const std::int32_t> before);

// Where one answer stands in its form. A value.
class FormPlace {
 public:
  // before: the tokens that the answer goes on from; ends: those that end it, in addition to special tokens that are
  // stop texts.
  FormPlace(std::shared_ptr<text::TokenForm> form, const Tokenizer& tokenizer, const GenerateConfig& config,
            std::span<const std::int32_t> before, std::span<const std::int32_t> ends);

  // Gives tokens that may not come next a logit below all that restrain() knows, and far below each that may.
  void restrain(std::span<float> logits) const;
  static bool is_outside(float logit) { return logit < kOutside / 2; }  // of restrained ones, also with a score added
  bool may_begin() const;  // some token, or an end, may come next
  // `id`, or, where that may not come next, the likeliest that may; -1: none may.
  std::int32_t nearest(std::int32_t id, std::span<const float> logits) const;
  void take(std::int32_t id);
  // The text has its form, and nothing can follow, not even a token that ends it.
  bool is_complete() const { return state_ && !state_->may_go_on() && ends_.empty(); }

 private:
  static constexpr float kOutside = -1e36f;
  bool may_come(std::int32_t id) const;
  bool is_end(std::int32_t id) const;

  std::shared_ptr<text::TokenForm> form_;
  const Tokenizer* tokenizer_;
  std::shared_ptr<text::FormState> state_;  // null: the text is outside
  mutable std::shared_ptr<const text::AllowedTokens> allowed_;  // null: nobody has asked since the last token
  std::vector<std::int32_t> ends_;
  bool first_ = false;  // no text stands before
};

}  // namespace hone::generate
