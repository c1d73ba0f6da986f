// Options of generation that somebody gave, over those that a folder has.
#pragma once

#include <optional>
#include <tuple>
#include <type_traits>

#include "hone/generate.h"

namespace hone::generate {
namespace detail {

template <class T>
struct GivenValue {};
template <class T>
struct GivenValue<std::optional<T>> {
  using Type = T;
};

}  // namespace detail

// Of `given`, a struct of options, each that may be absent, is not, and has the name of one of these. How many new
// tokens there may be takes the place of how long a text may be.
template <class Given>
void take_given(const Given& given, GenerateConfig& config) {
  const auto take = [&](const auto& from) {
    const auto& value = given.*from.member;
    if constexpr (requires { typename detail::GivenValue<std::remove_cvref_t<decltype(value)>>::Type; }) {
      using T = typename detail::GivenValue<std::remove_cvref_t<decltype(value)>>::Type;
      const auto put = [&](const auto& to) {
        auto& own = config.*to.member;
        using Own = std::remove_reference_t<decltype(own)>;
        if constexpr (std::is_same_v<Own, T> || std::is_same_v<Own, std::optional<T>>)
          if (value && to.name == from.name) own = *value;
      };
      std::apply([&](const auto&... to) { (put(to), ...); }, GenerateConfig::fields());
    }
  };
  std::apply([&](const auto&... from) { (take(from), ...); }, Given::fields());
  if (given.max_new_tokens) config.max_length.reset();
}

}  // namespace hone::generate
