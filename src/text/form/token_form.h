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
  // first: no text stands before.
  std::shared_ptr<const AllowedTokens> allowed(const std::shared_ptr<FormState>& state, bool first);
  // Null: no text goes on so.
  std::shared_ptr<FormState> after(const std::shared_ptr<FormState>& state, std::int32_t id, bool first);
  const TokenTexts& tokens() const { return *tokens_; }

 private:
  using Path = std::vector<FormState*>;
  AllowedTokens find_allowed(FormState& state, bool first);
  void forget_but(const Path& path, std::size_t length, std::vector<std::shared_ptr<FormState>>& held);
  void maybe_warn();

  struct Known {
    std::shared_ptr<FormState> state;  // so that no other one takes its address
    std::shared_ptr<const AllowedTokens> tokens;
  };
  static constexpr std::size_t kMostBytes = 32'000'000;

  std::mutex mutex_;  // of all below
  std::string what_;
  Automaton automaton_;
  std::shared_ptr<const TokenTexts> tokens_;
  std::unordered_map<const FormState*, Known> known_;
  std::size_t bytes_ = 0;
  bool warned_ = false;
};

}  // namespace hone::text
