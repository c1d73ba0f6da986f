// Numbers and texts over ranks.
#include "hone/world.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
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

Sums from_text(const std::string& text) {
  Sums sums;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = text.find(' ', at), end = text.find('\n', space);
    HONE_ASSERT(space != std::string::npos && end != std::string::npos);
    sums[text.substr(space + 1, end - space - 1)] = std::strtod(text.c_str() + at, nullptr);
    at = end + 1;
  }
  return sums;
}

}  // namespace

void World::compute_on(at::Device device) const {
  if (together_) together_->compute_on(device);
}

Sums World::total(Sums sums) const {
  if (!together_) return sums;
  Sums total;
  for (const Sums& one : gather(sums))
    for (const auto& [name, amount] : one) total[name] += amount;
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

namespace {

struct Done final : Begun {
  void wait() override {}
};

}  // namespace

std::unique_ptr<Begun> World::begin_sum(const Tensor& whole, const Tensor& share) const {
  if (together_) return together_->begin_sum(whole, share);
  share.copy_(whole);
  return std::make_unique<Done>();
}

std::unique_ptr<Begun> World::begin_gather(const Tensor& share, const Tensor& whole) const {
  if (together_) return together_->begin_gather(share, whole);
  whole.copy_(share);
  return std::make_unique<Done>();
}

std::unique_ptr<Begun> World::begin_all_to_all(const Tensor& from, const Tensor& to) const {
  if (together_) return together_->begin_all_to_all(from, to);
  to.copy_(from);
  return std::make_unique<Done>();
}

World World::among(int size) const { return size == 1 ? World() : World(together_->among(size)); }

World World::across(int size) const {
  return size == this->size() ? World() : size == 1 ? *this : World(together_->across(size));
}

std::vector<std::string> World::gather(const std::string& own) const {
  return together_ ? together_->gather(own) : std::vector<std::string>{own};
}

std::vector<Sums> World::gather(const Sums& own) const {
  if (!together_) return {own};
  std::vector<Sums> all;
  for (const std::string& one : together_->gather(to_text(own))) all.push_back(from_text(one));
  return all;
}

bool World::any(bool own) const {
  const std::vector<std::string> all = gather(own ? "1" : "");
  return std::any_of(all.begin(), all.end(), [](const std::string& one) { return !one.empty(); });
}

void World::wait() const { gather(""); }

std::string World::meet_again(const std::string& why) const { return together_ ? together_->meet_again(why) : why; }

void World::at(const std::string& phase) const {
  if (together_) together_->at(phase);
}

std::string World::from_first(const std::string& own) const {
  return together_ ? together_->gather(is_first() ? own : "").front() : own;
}

}  // namespace hone
