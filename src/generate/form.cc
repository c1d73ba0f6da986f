#include "generate/form.h"

#include <algorithm>
#include <deque>
#include <mutex>

#include "hone/error.h"
#include "text/form/grammar.h"

namespace hone::generate {
namespace {

// What was made of late: making it takes half a second for a large vocabulary, and a step of training or a request asks
// for the same again.
template <class Key, class Made>
class Latest {
 public:
  explicit Latest(std::size_t most) : most_(most) {}
  template <class Make>
  std::shared_ptr<Made> find_or(const Key& key, Make&& make) {
    {
      const std::lock_guard lock(mutex_);
      for (const auto& [known, made] : all_)
        if (known == key) return made;
    }
    std::shared_ptr<Made> made = make();  // by several at once where several ask
    const std::lock_guard lock(mutex_);
    all_.emplace_front(key, made);
    if (all_.size() > most_) all_.pop_back();
    return made;
  }

 private:
  const std::size_t most_;
  std::mutex mutex_;
  std::deque<std::pair<Key, std::shared_ptr<Made>>> all_;
};

using VocabularyKey = std::pair<std::string, std::int64_t>;

std::shared_ptr<const text::TokenTexts> texts_of(const Tokenizer& tokenizer, std::int64_t vocab_size) {
  const auto make = [&] { return std::make_shared<const text::TokenTexts>(tokenizer, vocab_size); };
  static Latest<VocabularyKey, const text::TokenTexts> latest(2);
  return tokenizer.fingerprint.empty() ? make() : latest.find_or({tokenizer.fingerprint, vocab_size}, make);
}

}  // namespace

std::shared_ptr<text::TokenForm> form_of(const GenerateConfig& config, const Tokenizer& tokenizer,
                                         std::int64_t vocab_size) {
  if (config.regex.empty() && config.json_schema.empty()) return nullptr;
  if (!config.regex.empty() && !config.json_schema.empty())
    throw Error(ErrorKind::config, "json_schema: beside regex; an answer is held to one form");
  const bool is_regex = !config.regex.empty();
  const std::string &form = is_regex ? config.regex : config.json_schema, what = is_regex ? "regex" : "json_schema";
  const auto make = [&] {
    return is_regex ? text::grammar_of_regex(form, what) : text::grammar_of_json_schema(form, what);
  };
  return form_of({what, form, make}, tokenizer, vocab_size);
}

std::shared_ptr<text::TokenForm> form_of(const MadeForm& form, const Tokenizer& tokenizer, std::int64_t vocab_size) {
  const auto make = [&] {
    return std::make_shared<text::TokenForm>(form.make(), texts_of(tokenizer, vocab_size), form.what);
  };
  static Latest<std::pair<VocabularyKey, std::pair<std::string, std::string>>, text::TokenForm> latest(8);
  if (tokenizer.fingerprint.empty()) return make();
  return latest.find_or({{tokenizer.fingerprint, vocab_size}, {form.what, form.key}}, make);
}

void check_form(const GenerateConfig& config, const Model& model, const Tokenizer& tokenizer,
                std::span<const std::int32_t> prompt) {
  const auto form = form_of(config, tokenizer, model.vocab_size());
  if (!form) return;
  // An answer to a source is a text of its own.
  const auto before = model.seq2seq_lm() ? std::span<const std::int32_t>() : prompt;
  check_form(form, config.regex.empty() ? "json_schema" : "regex", tokenizer, before);
}

void check_form(const std::shared_ptr<text::TokenForm>& form, const std::string& what, const Tokenizer& tokenizer,
                std::span<const std::int32_t> before) {
  if (!FormPlace(form, tokenizer, GenerateConfig(), before, {}).may_begin())
    throw Error(ErrorKind::config, what + ": no token begins a text of this form at the beginning of all text")
        .hint("tokenizers of words with a blank before them have none that begins a text with a blank");
}

FormPlace::FormPlace(std::shared_ptr<text::TokenForm> form, const Tokenizer& tokenizer, const GenerateConfig& config,
                     std::span<const std::int32_t> before, std::span<const std::int32_t> ends)
    : form_(std::move(form)), tokenizer_(&tokenizer), state_(form_->start()), ends_(ends.begin(), ends.end()) {
  first_ = std::ranges::all_of(before, [&](std::int32_t id) {
    return tokenizer.is_special(id) || !tokenizer.token_of(id);
  });
  for (const std::string& stop : config.stop)
    if (const auto id = tokenizer.id_of(stop); id && tokenizer.is_special(*id)) ends_.push_back(*id);
}

bool FormPlace::may_begin() const {
  const auto allowed = form_->allowed(state_, first_);
  return state_->may_end() || !allowed->list.empty() || !allowed->bits.empty();
}

bool FormPlace::is_end(std::int32_t id) const { return std::ranges::find(ends_, id) != ends_.end(); }

bool FormPlace::may_come(std::int32_t id) const { return is_end(id) ? state_->may_end() : allowed_->has(id); }

void FormPlace::restrain(std::span<float> logits) const {
  if (!state_) {
    std::ranges::fill(logits, kOutside);
    return;
  }
  if (!allowed_) allowed_ = form_->allowed(state_, first_);
  std::vector<std::pair<std::int32_t, float>> stay;
  const auto keep = [&](std::int32_t id) {
    if (id < std::ssize(logits)) stay.emplace_back(id, logits[static_cast<std::size_t>(id)]);
  };
  if (state_->may_end()) std::ranges::for_each(ends_, keep);
  if (allowed_->bits.empty()) {
    for (const std::int32_t id : allowed_->list)
      if (!is_end(id)) keep(id);
    std::ranges::fill(logits, kOutside);
  } else {
    for (std::size_t id = 0; id < logits.size(); ++id)
      if ((allowed_->bits[id / 64] >> id % 64 & 1) == 0) logits[id] = kOutside;
    for (const std::int32_t id : ends_)
      if (id < std::ssize(logits)) logits[static_cast<std::size_t>(id)] = kOutside;
  }
  for (const auto& [id, logit] : stay) logits[static_cast<std::size_t>(id)] = logit;
}

std::int32_t FormPlace::nearest(std::int32_t id, std::span<const float> logits) const {
  if (id < 0 || !state_ || !allowed_ || may_come(id)) return id;
  std::int32_t best = -1;
  for (std::int32_t i = 0; i < std::ssize(logits); ++i)
    if (may_come(i) && (best < 0 || logits[static_cast<std::size_t>(i)] > logits[static_cast<std::size_t>(best)]))
      best = i;
  return best;
}

void FormPlace::take(std::int32_t id) {
  if (!state_ || is_end(id) || form_->tokens().text(id, first_).empty()) return;
  state_ = form_->after(state_, id, first_);
  allowed_.reset();
  first_ = false;
}

}  // namespace hone::generate
