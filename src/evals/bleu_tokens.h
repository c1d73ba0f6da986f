// How BLEU parts texts into words, as sacrebleu does.
#pragma once

#include <string>
#include <vector>

#include "hone/config.h"

namespace hone::evals {

// v13a: as NIST's mteval-v13a does, of languages that are written as English is; intl: at every mark and symbol of
// Unicode; zh: as v13a, and each Chinese character is a word; character: each one is; none: at white space.
enum class BleuTokens { v13a, intl, zh, character, none };

// A space on both sides of marks, and of points and commas that are in no number; possessives: before 's, too.
std::string parted_as_english(const std::string& text, bool possessives = false);
// Without ends of lines and XML's entities, between two spaces.
std::string on_one_line(std::string text);

std::vector<std::string> bleu_tokens(const std::string& text, BleuTokens how);

}  // namespace hone::evals

template <>
inline constexpr auto hone::config::enum_names<hone::evals::BleuTokens> =
    std::to_array<std::pair<hone::evals::BleuTokens, std::string_view>>({{hone::evals::BleuTokens::v13a, "13a"},
                                                                         {hone::evals::BleuTokens::intl, "intl"},
                                                                         {hone::evals::BleuTokens::zh, "zh"},
                                                                         {hone::evals::BleuTokens::character, "char"},
                                                                         {hone::evals::BleuTokens::none, "none"}});
