// What other trainers call the options of a recipe: for whoever writes their names here.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hone::config {

struct OtherName {
  std::string_view name;    // as transformers, TRL, PEFT, Axolotl and others have it
  std::string_view option;  // of a recipe
  std::string_view value = "";      // of that option, where the name says it, too
  std::string_view otherwise = "";  // where it is false; "": no single one
};

std::span<const OtherName> other_names();
// Letters' case and dashes do not matter. null: no such name is known.
const OtherName* other_name(std::string_view name);
// Of the option, for a name that was given the value `given`, or none (""); "": not known.
std::string value_for(const OtherName& name, std::string_view given);

}  // namespace hone::config
