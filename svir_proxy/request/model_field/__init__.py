"""The ``model`` of a request whose body is not read otherwise, found while the body passes.

A body is a stream of pieces here, of which only so much is held as it takes to find the field; what is said twice or
could be read in two ways is refused, because another model would answer than the one that was looked at.
"""

from svir_proxy.request.model_field.field import ModelField
from svir_proxy.request.model_field.in_form import ModelInForm, form_boundary
from svir_proxy.request.model_field.in_json import ModelInJson

__all__ = ["ModelField", "ModelInForm", "ModelInJson", "form_boundary"]
