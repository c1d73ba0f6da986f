// Numbers and texts over ranks.
#include "hone/world.h"

#include <fmt/format.h>

#include <cstdlib>

#include "hone/error.h"

namespace hone {
namespace {

// "name value\n", exact: of what numbers are.
std::string to_text(const Sums& sums) {
  std::string text;
  for (const auto& [name, amount] : sums) text += fmt::format("{:a} {}\n", amount, name);
  return text;
}

void add_text(const std::string& text, Sums& total) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = text.find(' ', at), end = text.find('\n', space);
    HONE_ASSERT(space != std::string::npos && end != std::string::npos);
    total[text.substr(space + 1, end - space - 1)] += std::strtod(text.c_str() + at, nullptr);
    at = end + 1;
  }
}

}  // namespace

Sums World::total(Sums sums) const {
  if (!together_) return sums;
  Sums total;
  for (const std::string& one : together_->gather(to_text(sums))) add_text(one, total);
  return total;
}

double World::total(double value) const { return together_ ? total(Sums{{"", value}}).at("") : value; }

Tensor World::total(Tensor sum) const {
  if (!together_) return sum;
  Tensor made = sum.contiguous().clone();
  together_->sum(made);
  return made;
}

void World::add_up(Tensor& sum) const {
  if (together_) together_->sum(sum);
}

std::vector<std::string> World::gather(const std::string& own) const {
  return together_ ? together_->gather(own) : std::vector<std::string>{own};
}

std::string World::from_first(const std::string& own) const {
  return together_ ? together_->gather(is_first() ? own : "").front() : own;
}

}  // namespace hone
