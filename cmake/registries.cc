// The process's registries: the torch-free plug-ins always, those of the torch half and the commands where linked in.
#include "hone/registry.h"

extern "C" {
HONE_API void hone_register_core(hone::Registries& all);
// Weak: null in a program of the torch-free half. The library and the program define them (written by CMake).
HONE_API __attribute__((weak)) void hone_register_torch(hone::Registries& all);
HONE_API __attribute__((weak)) void hone_register_cli(hone::Registries& all);
}

namespace hone {

Registries& registries() {
  static Registries* const all = [] {
    auto* made = new Registries;  // never destroyed: threads may outlive main's statics
    hone_register_core(*made);
    if (hone_register_torch != nullptr) hone_register_torch(*made);
    if (hone_register_cli != nullptr) hone_register_cli(*made);
    return made;
  }();
  return *all;
}

}  // namespace hone
