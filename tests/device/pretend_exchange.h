// How ranks exchange what lies on pretended devices: as a library of a GPU's would, by Gloo from their memory.
#pragma once

namespace hone::test {

// Registers it; once per process. It refuses tensors of the host, and who touches a tensor that is on its way: what is
// to come is no number before wait(), and what goes must be there, unchanged, until then. Waiting for it is the
// device's: pretend_waits() does not count it.
void use_pretend_exchange();

}  // namespace hone::test
