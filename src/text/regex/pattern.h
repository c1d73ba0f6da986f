// {"String": ..} or {"Regex": ..}: what Replace and Split look for.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "text/regex/regex.h"
#include "text/regex/scanners.h"

namespace hone::text {

class Pattern {
 public:
  Pattern(const nlohmann::json& config, const std::string& where);

  // The scanner that does the same, if the pattern is one of the well-known ones.
  std::optional<Scanner> scanner() const { return scanner_; }
  bool is_text() const { return !regex_; }

  // Calls each(begin, end) for every match, from left to right.
  template <class Each>
  void each_match(std::string_view text, RegexScratch& scratch, Each&& each) const {
    if (regex_) return regex_->each_match(text, scratch, each);
    for (std::size_t at = text.find(text_); at != std::string_view::npos; at = text.find(text_, at + text_.size()))
      each(at, at + text_.size());
  }

 private:
  std::string text_;
  std::unique_ptr<const Regex> regex_;
  std::optional<Scanner> scanner_;
};

}  // namespace hone::text
