// Where the time of a training step goes: named sections, measured only while somebody asks (hone bench, and who
// listens to spans).
//
// Sections nest: the time of an inner one is not counted in the outer. Entered by the thread that trains only.
#pragma once

#include <array>
#include <functional>
#include <string_view>

namespace hone::sections {

enum class Section { matmul, attention, elementwise, loss, optimizer, data, ranks, other };
inline constexpr std::array<std::string_view, 8> kNames = {
    "matrix products", "attention", "norms and activations", "loss", "optimizer", "data", "other ranks", "other"};

using OfEach = std::array<double, kNames.size()>;
struct Totals {
  OfEach seconds{};
  OfEach flop{};    // multiplied and added
  OfEach bytes{};   // of tensors, read or written
  OfEach waited{};  // seconds in which threads of shared work waited for the last one, over the number of threads
};

// Totals from now on; everything outside a section is `other`. On the thread that will train. settle: waits until what
// a section has asked of a device is done, so that its time is the device's; without it, of who asks.
void start(std::function<void()> settle = nullptr);
Totals stop();

bool running();  // on this thread
// Of the running section.
void add_flop(double count);
void add_bytes(double count);
void add_waited(double seconds);

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
