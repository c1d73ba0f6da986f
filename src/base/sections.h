// Where the time of a training step goes: named sections, measured only while somebody asks (hone bench, and who
// listens to spans).
//
// Sections nest: the time of an inner one is not counted in the outer. Entered by the thread that trains only.
#pragma once

#include <array>
#include <string_view>

namespace hone::sections {

enum class Section { matmul, attention, elementwise, loss, optimizer, data, ranks, other };
inline constexpr std::array<std::string_view, 8> kNames = {
    "matrix products", "attention", "norms and activations", "loss", "optimizer", "data", "other ranks", "other"};

struct Totals {
  std::array<double, kNames.size()> seconds{};
  std::array<double, kNames.size()> flop{};
};

// Totals from now on; everything outside a section is `other`. On the thread that will train.
void start();
Totals stop();

void add_flop(double count);  // of the running section

class Timed {
 public:
  explicit Timed(Section section);
  ~Timed();
  Timed(const Timed&) = delete;

 private:
  Section section_, outer_;
  bool counted_;
  double begin_;  // for whom it may concern (base/spans.h); < 0: nobody
};

}  // namespace hone::sections
