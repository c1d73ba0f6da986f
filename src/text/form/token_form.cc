#include "text/form/token_form.h"

#include <fmt/format.h>

#include <algorithm>

#include "hone/error.h"

namespace hone::text {

bool AllowedTokens::has(std::int32_t id) const {
  if (bits.empty()) return std::ranges::binary_search(list, id);
  const auto at = static_cast<std::size_t>(id);
  return at / 64 < bits.size() && (bits[at / 64] >> at % 64 & 1) != 0;
}

TokenForm::TokenForm(Grammar grammar, std::shared_ptr<const TokenTexts> tokens, const std::string& what)
    : what_(what), automaton_(grammar, &tokens->usable()), tokens_(std::move(tokens)) {
  if (automaton_.start()->may_go_on()) return;
  if (automaton_.start()->may_end()) throw Error(ErrorKind::config, what + ": the empty text alone has this form");
  if (Automaton(std::move(grammar)).is_empty()) throw Error(ErrorKind::config, what + ": no text has this form");
  throw Error(ErrorKind::config, what + ": the tokenizer has no tokens for some characters that a text of this form "
                                        "needs");
}

template <class Work>
auto TokenForm::within_limits(Work&& work) {
  automaton_.allow(kMostWork);
  try {
    return work();
  } catch (const Automaton::TooMuch&) {
    throw Error(ErrorKind::config,
                fmt::format("{}: too many ways to go on at a time: what may follow here takes more than {} steps to "
                            "find",
                            what_, kMostWork))
        .hint("repetitions of parts that may match the same text make many ways, as (.{0,300}x?){300} does: write what "
              "may follow so that fewer parts compete");
  }
}

std::shared_ptr<const AllowedTokens> TokenForm::allowed(const std::shared_ptr<FormState>& state, bool first) {
  const std::lock_guard lock(mutex_);
  std::unordered_map<const FormState*, Known>& known = known_of(first);
  if (const auto found = known.find(state.get()); found != known.end()) return found->second.tokens;
  const auto made = within_limits([&] { return std::make_shared<const AllowedTokens>(find_allowed(*state, first)); });
  if (bytes_ + made->bytes() > kMostBytes) forget_known();
  bytes_ += made->bytes();
  known[state.get()] = {state, made};
  return made;
}

std::shared_ptr<FormState> TokenForm::after(const std::shared_ptr<FormState>& state, std::int32_t id, bool first) {
  const std::lock_guard lock(mutex_);
  return within_limits([&]() -> std::shared_ptr<FormState> {
    std::shared_ptr<FormState> at = state;
    for (const char c : tokens_->text(id, first)) {
      if (automaton_.is_full()) automaton_.forget(), forget_known();
      FormState* next = automaton_.step(*at, static_cast<std::uint8_t>(c));
      if (!next) return nullptr;
      at = next->shared_from_this();
    }
    return at;
  });
}

void TokenForm::forget_known() {
  known_.clear(), known_first_.clear();
  bytes_ = 0;
}

// What is remembered goes, but for the states on the way to where the search stands.
void TokenForm::forget_but(const Path& path, std::size_t length, std::vector<std::shared_ptr<FormState>>& held) {
  std::vector<std::shared_ptr<FormState>> kept;
  for (std::size_t i = 1; i <= length; ++i) kept.push_back(path[i]->shared_from_this());
  held = std::move(kept);
  automaton_.forget();
  forget_known();
}

AllowedTokens TokenForm::find_allowed(FormState& state, bool first) {
  const TextTrie& trie = tokens_->trie(first);
  Path path{&state};
  std::vector<std::shared_ptr<FormState>> held;
  AllowedTokens made;
  for (std::uint32_t i = 0; i < trie.nodes.size();) {
    const TextTrie::Node& node = trie.nodes[i];
    FormState* next = automaton_.step(*path[node.depth - 1u], node.byte);
    if (!next) {
      i = node.behind;
      continue;
    }
    if (path.size() <= node.depth) path.resize(node.depth + 1u);
    path[node.depth] = next;
    if (automaton_.is_full()) forget_but(path, node.depth, held);
    made.list.insert(made.list.end(), trie.ids.begin() + node.first_token,
                     trie.ids.begin() + node.first_token + node.tokens);
    ++i;
  }
  const auto words = static_cast<std::size_t>(tokens_->size() + 63) / 64;
  if (made.list.size() <= 2 * words) {
    std::ranges::sort(made.list);
    made.list.shrink_to_fit();
    return made;
  }
  made.bits.resize(words);
  for (const std::int32_t id : made.list)
    made.bits[static_cast<std::size_t>(id) / 64] |= std::uint64_t{1} << static_cast<std::size_t>(id) % 64;
  made.list.clear(), made.list.shrink_to_fit();
  return made;
}

}  // namespace hone::text
