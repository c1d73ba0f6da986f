// A form that answers are held to, over a vocabulary: which tokens may follow.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "text/form/automaton.h"
#include "text/form/token_texts.h"

namespace hone::text {

// Tokens that may come next: a list where there are few, else a bit each.
struct AllowedTokens {
  std::vector<std::int32_t> list;
  std::vector<std::uint64_t> bits;
  bool has(std::int32_t id) const;
  std::size_t bytes() const { return list.size() * 4 + bits.size() * 8 + 64; }
};

// Any thread may call it.
class TokenForm {
 public:
  // Error(config), beginning with `what`: there is no such text, or none that the tokens can write.
  TokenForm(Grammar grammar, std::shared_ptr<const TokenTexts> tokens, const std::string& what);

  std::shared_ptr<FormState> start() const { return automaton_.start(); }
  // first: no text stands before. Error(config), here and below: there are so many ways to go on that finding out what
  // may follow would take more than kMostWork; nothing is ever left out instead.
  std::shared_ptr<const AllowedTokens> allowed(const std::shared_ptr<FormState>& state, bool first);
  // Null: no text goes on so.
  std::shared_ptr<FormState> after(const std::shared_ptr<FormState>& state, std::int32_t id, bool first);
  const TokenTexts& tokens() const { return *tokens_; }

  // Places of the form that are looked at for one token: a tenth of a second or so.
  static constexpr std::size_t kMostWork = 2'000'000;

 private:
  using Path = std::vector<FormState*>;
  AllowedTokens find_allowed(FormState& state, bool first);
  void forget_but(const Path& path, std::size_t length, std::vector<std::shared_ptr<FormState>>& held);
  void forget_known();
  template <class Work>
  auto within_limits(Work&& work);

  struct Known {
    std::shared_ptr<FormState> state;  // so that no other one takes its address
    std::shared_ptr<const AllowedTokens> tokens;
  };
  std::unordered_map<const FormState*, Known>& known_of(bool first) {
    return first && tokens_->begins_otherwise() ? known_first_ : known_;
  }
  static constexpr std::size_t kMostBytes = 32'000'000;

  std::mutex mutex_;  // of all below
  std::string what_;
  Automaton automaton_;
  std::shared_ptr<const TokenTexts> tokens_;
  std::unordered_map<const FormState*, Known> known_, known_first_;
  std::size_t bytes_ = 0;
};

}  // namespace hone::text
