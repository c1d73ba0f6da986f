// Values in a row: added here, or lying in a file that is mapped.
#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace hone::data {

// One thread fills it; then any may read. Whoever maps a file keeps it mapped.
template <class T>
class Column {
 public:
  Column() = default;
  Column(Column&& other) noexcept : own_(std::move(other.own_)), seen_(std::exchange(other.seen_, {})) {}
  Column& operator=(Column&&) = delete;

  void push_back(const T& value) { own_.push_back(value), seen_ = own_; }
  template <class From>
  void append(std::span<const From> values) {
    own_.insert(own_.end(), values.begin(), values.end()), seen_ = own_;
  }
  void set_back(const T& value) { own_.back() = value; }
  void clear() { own_.clear(), seen_ = own_; }
  void assign(std::vector<T> values) { own_ = std::move(values), seen_ = own_; }
  // Instead of what it had.
  void lie_at(std::span<const T> values) { own_ = {}, seen_ = values; }

  std::size_t size() const { return seen_.size(); }
  bool empty() const { return seen_.empty(); }
  const T& operator[](std::size_t i) const { return seen_[i]; }
  const T& front() const { return seen_.front(); }
  const T& back() const { return seen_.back(); }
  const T* data() const { return seen_.data(); }
  auto begin() const { return seen_.begin(); }
  auto end() const { return seen_.end(); }
  std::span<const T> all() const { return seen_; }

 private:
  std::vector<T> own_;
  std::span<const T> seen_;
};

}  // namespace hone::data
