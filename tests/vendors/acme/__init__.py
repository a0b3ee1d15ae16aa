"""Acme A1 cards, through acme-smi: an example to copy from. docs/adding-a-vendor.md explains the parts."""

from accelscope.vendors.declaration import (
    DialectDeclaration,
    PluginDeclaration,
    VendorDeclaration,
    VendorSetting,
)

ACME_SMI = VendorSetting(
    name="acme_smi_path",
    default="acme-smi",
    help="The acme-smi tool of Acme's driver.",
    plugin_help="The acme-smi tool of Acme's driver.",
)

VENDOR = VendorDeclaration(
    package=__name__,
    name="acme",
    title="Acme",
    order=50,
    reader="reader:AcmeReader",
    sources="capture:SOURCES",
    examination="doctor:EXAMINATION",
    capture_plan="capture:PLAN",
    plugin=PluginDeclaration(
        part="plugin:AcmePart",
        resource="acme.com/npu",
        why_no_cdi="Acme's driver has no CDI names",
    ),
    settings=(ACME_SMI,),
    dialects=(DialectDeclaration(name="acme", package=__name__, part="dialect:dialect"),),
    simulated="simulated.vendor:VENDOR",
    words=("acme-smi",),
    model_prefix="Acme",
    resource_domain="acme.com",
    device_ids="plugin:resolve",
)
