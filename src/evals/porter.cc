// Porter's steps, one after the other. A rule replaces an ending; in a step the first one counts whose ending is there,
// whether or not what it asks of the rest holds.
#include "evals/porter.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <vector>

namespace hone::evals {
namespace {

bool is_vowel(char c) { return c == 'a' || c == 'e' || c == 'i' || c == 'o' || c == 'u'; }

// Of each letter. A y is one where what stands before it is none.
std::vector<bool> consonants(std::string_view word) {
  std::vector<bool> all;
  for (std::size_t i = 0; i < word.size(); ++i)
    all.push_back(word[i] == 'y' ? i == 0 || !all[i - 1] : !is_vowel(word[i]));
  return all;
}

bool ends_with_consonant(std::string_view word) { return !word.empty() && consonants(word).back(); }

// How often a vowel is followed by a consonant.
int measure(std::string_view word) {
  const std::vector<bool> all = consonants(word);
  int count = 0;
  for (std::size_t i = 1; i < all.size(); ++i) count += all[i] && !all[i - 1];
  return count;
}

bool has_vowel(std::string_view word) {
  const std::vector<bool> all = consonants(word);
  return std::find(all.begin(), all.end(), false) != all.end();
}

bool ends_with_double(std::string_view word) {
  return word.size() >= 2 && word.back() == word[word.size() - 2] && ends_with_consonant(word);
}

// As hop and fil do, and words of two letters such as at.
bool is_short(std::string_view word) {
  const std::vector<bool> all = consonants(word);
  const std::size_t n = all.size();
  if (n == 2) return !all[0] && all[1];
  const char last = word.empty() ? ' ' : word.back();
  return n > 2 && all[n - 3] && !all[n - 2] && all[n - 1] && last != 'w' && last != 'x' && last != 'y';
}

using Ending = std::pair<std::string_view, std::string_view>;  // and what takes its place

// more_than: what measure() of the rest must be above.
std::string replaced(std::string_view word, std::span<const Ending> rules, int more_than) {
  for (const auto& [ending, by] : rules) {
    if (!word.ends_with(ending)) continue;
    const std::string_view rest = word.substr(0, word.size() - ending.size());
    return measure(rest) > more_than ? std::string(rest).append(by) : std::string(word);
  }
  return std::string(word);
}

std::string without(std::string_view word, std::size_t letters) {
  return std::string(word.substr(0, word.size() - letters));
}

// Plurals.
std::string step_1a(const std::string& word) {
  if (word.ends_with("ies")) return without(word, word.size() == 4 ? 1 : 2);
  if (word.ends_with("sses")) return without(word, 2);
  return word.ends_with("s") && !word.ends_with("ss") ? without(word, 1) : word;
}

// What is left of a past or a present participle.
std::string mended(const std::string& stem) {
  for (const char* ending : {"at", "bl", "iz"})
    if (stem.ends_with(ending)) return stem + "e";
  const char last = stem.back();
  if (ends_with_double(stem)) return last == 'l' || last == 's' || last == 'z' ? stem : without(stem, 1);
  return measure(stem) == 1 && is_short(stem) ? stem + "e" : stem;
}

std::string step_1b(const std::string& word) {
  if (word.ends_with("ied")) return without(word, word.size() == 4 ? 1 : 2);
  if (word.ends_with("eed")) return measure(without(word, 3)) > 0 ? without(word, 1) : word;
  for (const std::string_view ending : {std::string_view("ed"), std::string_view("ing")})
    if (word.ends_with(ending))
      if (const std::string stem = without(word, ending.size()); has_vowel(stem)) return mended(stem);
  return word;
}

std::string step_1c(const std::string& word) {
  if (!word.ends_with("y") || word.size() < 3 || !ends_with_consonant(without(word, 1))) return word;
  return without(word, 1) + "i";
}

std::string step_2(const std::string& word) {
  static constexpr auto kRules = std::to_array<Ending>(
      {{"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"},   {"anci", "ance"},   {"izer", "ize"},
       {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"},   {"eli", "e"},       {"ousli", "ous"},
       {"ization", "ize"}, {"ation", "ate"},   {"ator", "ate"},    {"alism", "al"},    {"iveness", "ive"},
       {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},    {"iviti", "ive"},   {"biliti", "ble"},
       {"fulli", "ful"}});
  if (word.ends_with("alli") && measure(without(word, 4)) > 0) return step_2(without(word, 2));
  // Its l belongs to the rest that is measured.
  if (word.ends_with("logi")) return measure(without(word, 3)) > 0 ? without(word, 1) : word;
  return replaced(word, kRules, 0);
}

std::string step_3(const std::string& word) {
  static constexpr auto kRules = std::to_array<Ending>({{"icate", "ic"},
                                                        {"ative", ""},
                                                        {"alize", "al"},
                                                        {"iciti", "ic"},
                                                        {"ical", "ic"},
                                                        {"ful", ""},
                                                        {"ness", ""}});
  return replaced(word, kRules, 0);
}

std::string step_4(const std::string& word) {
  static constexpr auto kRules = std::to_array<Ending>(
      {{"al", ""},   {"ance", ""},  {"ence", ""}, {"er", ""},  {"ic", ""},  {"able", ""}, {"ible", ""},
       {"ant", ""},  {"ement", ""}, {"ment", ""}, {"ent", ""}, {"ou", ""},  {"ism", ""},  {"ate", ""},
       {"iti", ""},  {"ous", ""},   {"ive", ""},  {"ize", ""}});
  if (!word.ends_with("ion")) return replaced(word, kRules, 1);
  const std::string rest = without(word, 3);
  return measure(rest) > 1 && (rest.back() == 's' || rest.back() == 't') ? rest : word;
}

std::string step_5(std::string word) {
  if (word.ends_with("e")) {
    const std::string rest = without(word, 1);
    const int count = measure(rest);
    if (count > 1 || (count == 1 && !is_short(rest))) word = rest;
  }
  return word.ends_with("ll") && measure(without(word, 1)) > 1 ? without(word, 1) : word;
}

// Words that the rules do not fit.
constexpr auto kIrregular = std::to_array<Ending>({{"sky", "sky"},
                                                   {"skies", "sky"},
                                                   {"dying", "die"},
                                                   {"lying", "lie"},
                                                   {"tying", "tie"},
                                                   {"news", "news"},
                                                   {"innings", "inning"},
                                                   {"inning", "inning"},
                                                   {"outings", "outing"},
                                                   {"outing", "outing"},
                                                   {"cannings", "canning"},
                                                   {"canning", "canning"},
                                                   {"howe", "howe"},
                                                   {"proceed", "proceed"},
                                                   {"exceed", "exceed"},
                                                   {"succeed", "succeed"}});

}  // namespace

std::string porter_stem(std::string_view word) {
  for (const auto& [irregular, stem] : kIrregular)
    if (word == irregular) return std::string(stem);
  if (word.size() <= 2) return std::string(word);
  return step_5(step_4(step_3(step_2(step_1c(step_1b(step_1a(std::string(word))))))));
}

}  // namespace hone::evals
